"""The DRA driver of a node: what NVIDIA's kubelet plugin does, for GPUs that are data.

::

    inventory ──► publisher ──► ResourceSlices
                     kubelet ──► sockets ──► preparer ──► CDI files, checkpoint

It runs as a process of its own on each node: ``python -m labkit.driver``.
"""
