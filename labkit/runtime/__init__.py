"""The container runtime of a node, as its kubelet sees it: a CRI service over runc.

Containers run the host's own programs: nothing is pulled, and an image is only a name.

::

    kubelet ──► service ──► containers ──► monitor ──► runc   (one monitor per container,
                   │            │                              which outlives this process)
                   │            └── hostfs, ocispec, cdi       what the container sees
                   └── streaming ──► processes                 exec, attach, port-forward

It runs as a process of its own on each node: ``python -m labkit.runtime``.
"""
