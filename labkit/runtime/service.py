"""The CRI services: what a kubelet asks, answered from records and processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc

from labkit.errors import WaitTimedOut
from labkit.rpc import Refused, Schema
from labkit.runtime import figures
from labkit.runtime.containers import Containers
from labkit.runtime.images import SIZE, Images, reference
from labkit.runtime.processes import LOOPBACK, Processes, tell
from labkit.runtime.records import Container, Sandbox
from labkit.runtime.streaming import StreamingServer

RUNTIME_NAME = "labkit"
"""What stands in a node's ``containerRuntimeVersion``."""

_CREATED, _RUNNING, _EXITED = range(3)
_STATES = {"created": _CREATED, "running": _RUNNING, "exited": _EXITED}
_READY, _NOT_READY = range(2)
_CGROUPFS = 1


class RuntimeService:
    """``runtime.v1.RuntimeService``."""

    def __init__(
        self, schema: Schema, containers: Containers, processes: Processes, streams: StreamingServer
    ) -> None:
        self._m = schema.messages
        self._containers = containers
        self._records = containers.records
        self._processes = processes
        self._streams = streams

    # The runtime itself

    def version(self, _request: Any) -> Any:
        """Who we are."""
        return self._m["VersionResponse"](
            version="0.1.0",
            runtime_name=RUNTIME_NAME,
            runtime_version=version("labkit"),
            runtime_api_version="v1",
        )

    def status(self, _request: Any) -> Any:
        """Ready, and on the host's network."""
        response = self._m["StatusResponse"]()
        for kind in ("RuntimeReady", "NetworkReady"):
            response.status.conditions.add(type=kind, status=True)
        response.runtime_handlers.add(name="")
        return response

    def runtime_config(self, _request: Any) -> Any:
        """No cgroups are used; the kubelet wants to hear a driver all the same."""
        return self._m["RuntimeConfigResponse"](linux={"cgroup_driver": _CGROUPFS})

    def update_runtime_config(self, _request: Any) -> Any:
        """There is nothing to be configured."""
        return self._m["UpdateRuntimeConfigResponse"]()

    # Pods

    def run_pod_sandbox(self, request: Any) -> Any:
        """A pod begins: it needs nothing but to be remembered."""
        if request.runtime_handler:
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"there is no runtime handler {request.runtime_handler!r} on this node; "
                "remove runtimeClassName from the pod",
            )
        sandbox = self._records.add_sandbox(request.config)
        Path(request.config.log_directory or os.sep).mkdir(parents=True, exist_ok=True)
        return self._m["RunPodSandboxResponse"](pod_sandbox_id=sandbox.id)

    def stop_pod_sandbox(self, request: Any) -> Any:
        """A pod ends."""
        sandbox = self._records.sandbox(request.pod_sandbox_id)
        if sandbox:
            self._containers.stop_sandbox(sandbox)
        return self._m["StopPodSandboxResponse"]()

    def remove_pod_sandbox(self, request: Any) -> Any:
        """A pod is forgotten."""
        sandbox = self._records.sandbox(request.pod_sandbox_id)
        if sandbox:
            self._containers.remove_sandbox(sandbox)
        return self._m["RemovePodSandboxResponse"]()

    def pod_sandbox_status(self, request: Any) -> Any:
        """How a pod is."""
        sandbox = self._sandbox(request.pod_sandbox_id)
        config = sandbox.config
        status = self._m["PodSandboxStatus"](
            id=sandbox.id,
            metadata=config.metadata,
            state=_READY if sandbox.ready else _NOT_READY,
            created_at=sandbox.created_at,
            network={"ip": LOOPBACK},
            labels=config.labels,
            annotations=config.annotations,
        )
        options = config.linux.security_context.namespace_options
        status.linux.namespaces.options.CopyFrom(options)
        return self._m["PodSandboxStatusResponse"](status=status)

    def list_pod_sandbox(self, request: Any) -> Any:
        """The pods that a filter lets through."""
        wanted = request.filter
        response = self._m["ListPodSandboxResponse"]()
        for sandbox in self._records.sandboxes():
            state = _READY if sandbox.ready else _NOT_READY
            if (
                wanted.id in ("", sandbox.id)
                and (not wanted.HasField("state") or wanted.state.state == state)
                and _selected(sandbox.config.labels, wanted.label_selector)
            ):
                response.items.add(
                    id=sandbox.id,
                    metadata=sandbox.config.metadata,
                    state=state,
                    created_at=sandbox.created_at,
                    labels=sandbox.config.labels,
                    annotations=sandbox.config.annotations,
                )
        return response

    def update_pod_sandbox_resources(self, _request: Any) -> Any:
        """Resources are accounted for by the scheduler, and limited by nobody here."""
        return self._m["UpdatePodSandboxResourcesResponse"]()

    # Containers

    def create_container(self, request: Any) -> Any:
        """Make a container."""
        return self._m["CreateContainerResponse"](container_id=self._containers.create(request).id)

    def start_container(self, request: Any) -> Any:
        """Start a container."""
        self._containers.start(self._container(request.container_id))
        return self._m["StartContainerResponse"]()

    def stop_container(self, request: Any) -> Any:
        """End a container."""
        container = self._records.container(request.container_id)
        if container:
            self._containers.stop(container, request.timeout)
        return self._m["StopContainerResponse"]()

    def remove_container(self, request: Any) -> Any:
        """Forget a container."""
        container = self._records.container(request.container_id)
        if container:
            self._containers.remove(container)
        return self._m["RemoveContainerResponse"]()

    def list_containers(self, request: Any) -> Any:
        """The containers that a filter lets through."""
        wanted = request.filter
        response = self._m["ListContainersResponse"]()
        for container in self._records.containers(wanted.pod_sandbox_id):
            if wanted.id not in ("", container.id):
                continue
            if not _selected(container.config.labels, wanted.label_selector):
                continue
            state = self._state(container)
            if not wanted.HasField("state") or wanted.state.state == state:
                config = container.config
                response.containers.add(
                    id=container.id,
                    pod_sandbox_id=container.sandbox_id,
                    metadata=config.metadata,
                    image=config.image,
                    image_ref=reference(config.image.image),
                    image_id=reference(config.image.image),
                    state=state,
                    created_at=container.created_at,
                    labels=config.labels,
                    annotations=config.annotations,
                )
        return response

    def container_status(self, request: Any) -> Any:
        """How a container is."""
        container = self._container(request.container_id)
        sandbox = self._sandbox(container.sandbox_id)
        config, run, end = container.config, container.run(), container.exit()
        status = self._m["ContainerStatus"](
            id=container.id,
            metadata=config.metadata,
            state=self._state(container),
            created_at=container.created_at,
            started_at=run.at if run else 0,
            image=config.image,
            image_ref=reference(config.image.image),
            image_id=reference(config.image.image),
            labels=config.labels,
            annotations=config.annotations,
            mounts=config.mounts,
            log_path=str(self._containers.log_path(container, sandbox) or ""),
            stop_signal=config.stop_signal,
        )
        user = self._containers.user_of(container)
        status.user.linux.uid, status.user.linux.gid = user.uid, user.gid
        if end:
            status.finished_at, status.exit_code = end.at, end.code
            status.reason = "Completed" if end.code == 0 else "Error"
        return self._m["ContainerStatusResponse"](status=status)

    def update_container_resources(self, _request: Any) -> Any:
        """Resources are accounted for by the scheduler, and limited by nobody here."""
        return self._m["UpdateContainerResourcesResponse"]()

    def reopen_container_log(self, request: Any) -> Any:
        """Go on in a new log file."""
        tell(self._container(request.container_id), "reopen")
        return self._m["ReopenContainerLogResponse"]()

    # Going into containers

    def exec_sync(self, request: Any) -> Any:
        """Run a command to its end."""
        try:
            out, err, code = self._processes.run(
                request.container_id, list(request.cmd), request.timeout
            )
        except WaitTimedOut as error:
            raise Refused(grpc.StatusCode.DEADLINE_EXCEEDED, error.message) from error
        return self._m["ExecSyncResponse"](stdout=out, stderr=err, exit_code=code)

    def exec(self, request: Any) -> Any:
        """Where a client can run a command."""
        self._containers.running_pid(request.container_id)
        url = self._streams.exec_url(
            request.container_id, list(request.cmd), tty=request.tty, stdin=request.stdin,
            stdout=request.stdout, stderr=request.stderr,
        )  # fmt: skip
        return self._m["ExecResponse"](url=url)

    def attach(self, request: Any) -> Any:
        """Where a client can join a container."""
        self._containers.running_pid(request.container_id)
        url = self._streams.attach_url(
            request.container_id, tty=request.tty, stdin=request.stdin, stdout=request.stdout,
            stderr=request.stderr,
        )  # fmt: skip
        return self._m["AttachResponse"](url=url)

    def port_forward(self, request: Any) -> Any:
        """Where a client can reach a pod's ports."""
        self._sandbox(request.pod_sandbox_id)
        url = self._streams.port_forward_url(request.pod_sandbox_id, list(request.port))
        return self._m["PortForwardResponse"](url=url)

    # Figures

    def container_stats(self, request: Any) -> Any:
        """What a container uses."""
        container = self._container(request.container_id)
        return self._m["ContainerStatsResponse"](stats=self._stats(container))

    def list_container_stats(self, request: Any) -> Any:
        """What all running containers use."""
        wanted = request.filter
        return self._m["ListContainerStatsResponse"](
            stats=[
                self._stats(container)
                for container in self._records.containers(wanted.pod_sandbox_id)
                if wanted.id in ("", container.id)
                and _selected(container.config.labels, wanted.label_selector)
                and self._state(container) == _RUNNING
            ]
        )

    def pod_sandbox_stats(self, request: Any) -> Any:
        """What a pod uses."""
        sandbox = self._sandbox(request.pod_sandbox_id)
        return self._m["PodSandboxStatsResponse"](stats=self._pod_stats(sandbox))

    def list_pod_sandbox_stats(self, request: Any) -> Any:
        """What all pods use."""
        wanted = request.filter
        return self._m["ListPodSandboxStatsResponse"](
            stats=[
                self._pod_stats(sandbox)
                for sandbox in self._records.sandboxes()
                if sandbox.ready
                and wanted.id in ("", sandbox.id)
                and _selected(sandbox.config.labels, wanted.label_selector)
            ]
        )

    def _stats(self, container: Container) -> Any:
        run = container.run()
        config = container.config
        stats = self._m["ContainerStats"](
            attributes={
                "id": container.id,
                "metadata": config.metadata,
                "labels": config.labels,
                "annotations": config.annotations,
            }
        )
        if run and run.alive:
            used = figures.of(run.pid)
            stats.cpu.timestamp = stats.memory.timestamp = used.at
            stats.cpu.usage_core_nano_seconds.value = used.cpu_ns
            stats.memory.working_set_bytes.value = used.memory
            stats.memory.rss_bytes.value = used.memory
        return stats

    def _pod_stats(self, sandbox: Sandbox) -> Any:
        config = sandbox.config
        containers = [
            self._stats(one)
            for one in self._records.containers(sandbox.id)
            if self._state(one) == _RUNNING
        ]
        stats = self._m["PodSandboxStats"](
            attributes={
                "id": sandbox.id,
                "metadata": config.metadata,
                "labels": config.labels,
                "annotations": config.annotations,
            }
        )
        linux, now = stats.linux, time.time_ns()
        linux.containers.extend(containers)
        linux.cpu.timestamp = linux.memory.timestamp = now
        linux.cpu.usage_core_nano_seconds.value = sum(
            one.cpu.usage_core_nano_seconds.value for one in containers
        )
        linux.memory.working_set_bytes.value = sum(
            one.memory.working_set_bytes.value for one in containers
        )
        return stats

    # Finding

    def _state(self, container: Container) -> int:
        return _STATES[self._containers.state_of(container)]

    def _container(self, id_: str) -> Container:
        container = self._records.container(id_)
        if container is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"there is no container {id_!r}")
        return container

    def _sandbox(self, id_: str) -> Sandbox:
        sandbox = self._records.sandbox(id_)
        if sandbox is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"there is no pod sandbox {id_!r}")
        return sandbox


class ImageService:
    """``runtime.v1.ImageService``."""

    def __init__(self, schema: Schema, images: Images, folder: Path) -> None:
        self._m = schema.messages
        self._images = images
        self._folder = folder

    def list_images(self, request: Any) -> Any:
        """The names that were accepted."""
        wanted = request.filter.image.image
        names = [name for name in self._images.names() if wanted in ("", name, reference(name))]
        return self._m["ListImagesResponse"](images=map(self._image, names))

    def image_status(self, request: Any) -> Any:
        """An accepted name, or nothing."""
        response = self._m["ImageStatusResponse"]()
        for name in self._images.names():
            if request.image.image in (name, reference(name)):
                response.image.CopyFrom(self._image(name))
        return response

    def pull_image(self, request: Any) -> Any:
        """Accept a name."""
        self._images.add(request.image.image)
        return self._m["PullImageResponse"](image_ref=reference(request.image.image))

    def remove_image(self, request: Any) -> Any:
        """Forget a name."""
        self._images.remove(request.image.image)
        return self._m["RemoveImageResponse"]()

    def image_fs_info(self, _request: Any) -> Any:
        """The file system of our state; images take nothing of it."""
        usage = {
            "timestamp": time.time_ns(),
            "fs_id": {"mountpoint": str(self._folder)},
            "used_bytes": {"value": 0},
            "inodes_used": {"value": 0},
        }
        return self._m["ImageFsInfoResponse"](
            image_filesystems=[usage], container_filesystems=[usage]
        )

    def _image(self, name: str) -> Any:
        return self._m["Image"](
            id=reference(name), repo_tags=[name], size=SIZE, spec={"image": name}
        )


def _selected(labels: Any, selector: Any) -> bool:
    pairs: Iterable[tuple[str, str]] = selector.items()
    return all(labels.get(key) == value for key, value in pairs)
