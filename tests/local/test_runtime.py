"""Containers of the embedded cluster, asked for by kubectl as a user would."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from labkit.kube import EVENTS, PODS
from labkit.kube.wait import wait_deleted, wait_for_pod_finished, wait_for_pod_running
from labkit.waiting import NotYet, Seen, wait_until

pytestmark = pytest.mark.local

IMAGE = "example.com/any/name:at-all"


class Pods:
    """Pods of one container, in a namespace of the test's own."""

    def __init__(self, cluster: Any, client: Any, namespace: str) -> None:
        self.cluster, self.client, self.namespace = cluster, client, namespace

    def create(self, name: str, *command: str, **more: Any) -> None:
        container = {"name": "main", "image": IMAGE, "command": list(command)}
        container |= more.pop("container", {})
        spec = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", **more}
        spec = {"containers": [container], **spec}
        self.client.create(
            PODS, {"metadata": {"name": name}, "spec": spec}, namespace=self.namespace
        )

    def run(self, name: str, script: str, **more: Any) -> str:
        """What a script prints in a container, from its start to its end."""
        self.create(name, "sh", "-c", script, **more)
        self.finished(name)
        return self.logs(name)

    def start(self, name: str, script: str = "exec sleep 3600", **more: Any) -> Any:
        self.create(name, "sh", "-c", script, **more)
        return wait_for_pod_running(self.client, name, namespace=self.namespace, timeout_s=60)

    def finished(self, name: str) -> Any:
        return wait_for_pod_finished(self.client, name, namespace=self.namespace, timeout_s=60)

    def get(self, name: str) -> Any:
        return self.client.get(PODS, name, namespace=self.namespace)

    def logs(self, name: str, *options: str) -> str:
        return str(self.kubectl("logs", name, *options).stdout)

    def kubectl(self, *arguments: str, **options: Any) -> Any:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, **options)

    def exec(self, name: str, *command: str, **options: Any) -> Any:
        return self.kubectl(
            "exec", name, *(["-i"] if "input" in options else []), "--", *command, **options
        )

    def until(self, name: str, what: str, look: Any, timeout_s: float = 60) -> Any:
        def probe() -> Seen[Any] | NotYet:
            pod = self.get(name)
            return (
                Seen(pod)
                if look(pod)
                else NotYet(json.dumps(pod["status"].get("containerStatuses")))
            )

        return wait_until(probe, what=what, timeout_s=timeout_s)


@pytest.fixture
def pods(cluster, client, namespace):
    return Pods(cluster, client, namespace)


def test_a_container_has_its_own_processes_host_name_and_files(pods):
    printed = pods.run(
        "alone",
        "hostname; cat /etc/hostname; ls /tmp /run /root /home; echo $$$$; "
        "touch /usr/new /etc/new; test -e /usr/new && echo written",
    )
    assert printed.split()[:2] == ["alone", "alone"]
    assert printed.split()[-2:] == ["1", "written"]
    assert not Path("/usr/new").exists()
    assert not Path("/etc/new").exists()


def test_environment_working_directory_and_arguments_arrive(pods):
    container = {
        "args": ["-c", "echo $GREETING $(pwd) $POD; echo $*", "sh", "one two"],
        "env": [
            {"name": "GREETING", "value": "hällo world"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "workingDir": "/tmp",
    }
    pods.create("given", "sh", container=container)
    pods.finished("given")
    assert pods.logs("given") == "hällo world /tmp given\none two\n"


def test_volumes_are_at_their_paths(pods, client):
    pods.kubectl("create", "configmap", "settings", "--from-literal=key=from a map")
    pods.kubectl("create", "secret", "generic", "hidden", "--from-literal=word=a secret")
    volumes = [
        {"name": "map", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "hidden", "defaultMode": 0o400}},
        {"name": "empty", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": "/usr/share", "type": "Directory"}},
        {"name": "down", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "settings"}}, {"secret": {"name": "hidden"}}]}},
    ]  # fmt: skip
    mounts = [{"name": v["name"], "mountPath": f"/etc/given/{v['name']}"} for v in volumes]
    mounts[0]["readOnly"] = True
    printed = pods.run(
        "volumes",
        "cd /etc/given; cat map/key secret/word all/key all/word down/labels; echo; "
        "stat -L -c %a secret/word; echo mine > empty/file; cat empty/file; "
        "stat -f -c %T memory; ls host | head -1; echo x 2>&1 > map/key || echo refused; "
        "ls /var/run/secrets/kubernetes.io/serviceaccount",
        volumes=volumes,
        container={"volumeMounts": mounts},
    )
    assert printed.startswith(
        f"from a mapa secretfrom a mapa secret{pods.namespace}\n400\nmine\ntmpfs\n"
    )
    assert "refused" in printed
    assert printed.split()[-3:] == ["ca.crt", "namespace", "token"]
    assert client.readyz()


def test_a_user_is_who_was_asked_for(pods):
    # A token would belong to that user, and the node has one user only.
    more = {
        "automountServiceAccountToken": False,
        "container": {"securityContext": {"runAsUser": 1234, "runAsGroup": 5678}},
    }
    printed = pods.run("somebody", "id -u; id -g", **more)
    assert printed.split() == ["1234", "5678"]
    pods.start("other", **more)
    assert pods.exec("other", "id", "-u").stdout.strip() == "1234"


def test_init_containers_come_first_and_sidecars_stay(pods):
    shared = [{"name": "shared", "mountPath": "/shared"}]
    init = [
        {"name": "first", "image": IMAGE, "command": ["sh", "-c", "echo one >> /shared/order"],
         "volumeMounts": shared},
        {"name": "side", "image": IMAGE, "restartPolicy": "Always", "volumeMounts": shared,
         "command": ["sh", "-c", "echo two >> /shared/order; exec sleep 3600"],
         "startupProbe": {"periodSeconds": 1,
                          "exec": {"command": ["grep", "two", "/shared/order"]}}},
    ]  # fmt: skip
    printed = pods.run(
        "ordered",
        "echo three >> /shared/order; cat /shared/order",
        initContainers=init,
        volumes=[{"name": "shared", "emptyDir": {}}],
        container={"volumeMounts": shared},
    )
    assert printed.split() == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("script", "code", "phase"),
    [
        ("exit 0", 0, "Succeeded"),
        ("exit 42", 42, "Failed"),
        ("kill -9 $$$$; sleep 9", 137, "Failed"),
    ],
)
def test_exit_codes_are_told(pods, script, code, phase):
    # The first process of a pid namespace cannot kill itself, so another one is killed.
    # Kubernetes makes one $ of two.
    pods.create("ending", "sh", "-c", f"sh -c '{script}'; exit $?")
    pod = pods.finished("ending")
    assert pod["status"]["phase"] == phase
    state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == code


def test_a_container_that_fails_is_started_again_and_its_last_words_are_kept(pods):
    pods.create("again", "sh", "-c", "echo these words; exit 3", restartPolicy="Always")
    pods.until(
        "again",
        "a restart",
        lambda pod: (pod["status"].get("containerStatuses") or [{}])[0].get("restartCount", 0) >= 1,
    )

    def words() -> Seen[str] | NotYet:
        # The kubelet may be about to remove the very container that its status still names.
        done = pods.kubectl("logs", "again", "--previous", check=False)
        return (
            Seen(done.stdout) if "these words" in done.stdout else NotYet(done.stdout + done.stderr)
        )

    assert wait_until(words, what="the last words", timeout_s=60)


def test_a_liveness_probe_that_fails_restarts_the_container(pods):
    probe = {
        "exec": {"command": ["test", "-e", "/tmp/fine"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    pods.create(
        "probed",
        "sh",
        "-c",
        "touch /tmp/fine; exec sleep 3600",
        restartPolicy="Always",
        container={"livenessProbe": probe},
    )
    wait_for_pod_running(pods.client, "probed", namespace=pods.namespace)
    pods.exec("probed", "rm", "/tmp/fine")
    pods.until(
        "probed",
        "a restart",
        lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] >= 1,
    )


def test_a_container_may_end_in_peace_and_is_killed_when_it_does_not(pods):
    pods.start(
        "polite",
        "trap 'echo going; exit 0' TERM; echo ready; while :; do sleep 0.1; done",
        terminationGracePeriodSeconds=20,
        container={"terminationMessagePath": "/dev/termination-log"},
    )
    pods.start("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    for name in ("polite", "stubborn"):
        wait_until(
            lambda name=name: Seen(True) if "ready" in pods.logs(name) else NotYet("silent"),
            what=name,
            timeout_s=30,
        )
    with follow(pods, "polite") as lines:
        pods.client.delete(PODS, "polite", namespace=pods.namespace)
        assert "going" in lines.read()
    pods.client.delete(PODS, "stubborn", namespace=pods.namespace)
    for name in ("polite", "stubborn"):
        wait_deleted(pods.client, PODS, name, namespace=pods.namespace, timeout_s=15)


@contextmanager
def follow(pods, name):
    argv, env = pods.cluster.kubectl_command("-n", pods.namespace, "logs", "-f", name)
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline().strip() == "ready"
        try:
            yield child.stdout
        finally:
            child.kill()


def test_nothing_of_a_deleted_pod_goes_on_running(pods):
    pods.start("family", "sleep 4242 & (sleep 4243 & sleep 4244) & exec sleep 4245")
    wait_until(
        lambda: Seen(True) if len(sleepers()) == 4 else NotYet(str(sleepers())),
        what="the family",
        timeout_s=30,
    )
    pods.client.delete(PODS, "family", namespace=pods.namespace, grace_s=0)
    wait_until(
        lambda: NotYet(str(left)) if (left := sleepers()) else Seen(True),
        what="all of them to end",
        timeout_s=30,
    )


def sleepers() -> list[str]:
    done = subprocess.run(
        ["pgrep", "-f", "^sleep 424[2-5]"], capture_output=True, text=True, check=False, timeout=10
    )
    return done.stdout.split()


def test_exec_passes_input_output_errors_and_exit_code(pods):
    pods.start("inside")
    done = pods.exec("inside", "sh", "-c", "cat; echo bad >&2; exit 7", input="good\n", check=False)
    assert (done.stdout, done.returncode) == ("good\n", 7)
    assert "bad" in done.stderr


def test_exec_with_a_terminal_is_one(pods):
    pods.start("inside")
    argv, env = pods.cluster.kubectl_command(
        "-n",
        pods.namespace,
        "exec",
        "-it",
        "inside",
        "--",
        "sh",
        "-c",
        "tty; echo; stty size; exit 5",
    )
    master, slave = pty.openpty()
    with subprocess.Popen(argv, env=env, stdin=slave, stdout=slave, stderr=slave) as child:
        os.close(slave)
        printed = read_all(master)
        assert child.wait(30) == 5
    assert "/dev/pts/" in printed


def read_all(handle: int) -> str:
    data = b""
    while select.select([handle], [], [], 30)[0]:
        try:
            piece = os.read(handle, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        data += piece
    os.close(handle)
    return data.decode()


def test_cp_goes_both_ways(pods, tmp_path):
    pods.start("inside")
    source = tmp_path / "a file"
    source.write_bytes(os.urandom(3_000_000))
    back = tmp_path / "back"
    pods.kubectl("cp", str(source), "inside:/tmp/there")
    pods.kubectl("cp", "inside:/tmp/there", str(back))
    assert back.read_bytes() == source.read_bytes()


def test_port_forward_reaches_a_server_in_a_pod(pods):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pods.start(
        "server",
        f"echo hello > /tmp/x; cd /tmp; exec python3 -m http.server {port} --bind 127.0.0.1",
    )
    # kubectl gives up at the first connection that nobody takes, so the server comes first;
    # pods are on the host's network.
    wait_until(lambda: fetch(port), what="the server in the pod", timeout_s=30)
    argv, env = pods.cluster.kubectl_command(
        "-n", pods.namespace, "port-forward", "pod/server", f":{port}"
    )
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            first = child.stdout.readline()
            here = re.search(r"127\.0\.0\.1:(\d+)", first)
            assert here, first

            assert wait_until(lambda: fetch(here[1]), what="an answer", timeout_s=30) == "hello\n"
        finally:
            child.send_signal(signal.SIGINT)


def fetch(port: int | str) -> Seen[str] | NotYet:
    try:
        return Seen(httpx.get(f"http://127.0.0.1:{port}/x", timeout=5).text)
    except httpx.HTTPError as error:
        return NotYet(str(error))


def test_a_container_without_a_command_says_why_it_cannot_be(pods, client):
    pod = {"metadata": {"name": "bare"}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    client.create(PODS, pod, namespace=pods.namespace)

    def event() -> Seen[str] | NotYet:
        found = client.list(
            EVENTS, namespace=pods.namespace, fields="involvedObject.name=bare,reason=Failed"
        ).items
        return Seen(found[0]["message"]) if found else NotYet("no event")

    told = wait_until(event, what="the event", timeout_s=30)
    assert "its entrypoint is unknown" in told
    assert "set `command`" in told


def test_the_node_says_whose_runtime_it_is(client):
    from labkit.kube import NODES

    for node in client.list(NODES).items:
        version = node["status"]["nodeInfo"]["containerRuntimeVersion"]
        assert version.startswith("labkit://")


def test_a_pod_says_that_its_image_was_not_pulled(pods):
    pod = pods.start("named")
    assert pod["status"]["containerStatuses"][0]["imageID"] == f"labkit://not-pulled/{IMAGE}"


def test_containers_outlive_a_crash_of_their_runtime_and_are_found_again(pods, cluster):
    before = pods.start("survivor", "echo before; exec sleep 3600")
    node = before["spec"]["nodeName"]
    pid = next(c.pid for c in cluster.status().components if c.name == f"runtime-{node}")
    os.kill(pid, signal.SIGKILL)

    def answers() -> Seen[str] | NotYet:
        done = pods.exec("survivor", "echo", "after", check=False)
        return Seen(done.stdout) if done.returncode == 0 else NotYet(done.stderr)

    assert wait_until(answers, what="exec after the crash", timeout_s=30) == "after\n"
    assert pods.logs("survivor") == "before\n"
    after = pods.get("survivor")["status"]["containerStatuses"][0]
    assert after["containerID"] == before["status"]["containerStatuses"][0]["containerID"]
    assert after["restartCount"] == 0


def test_a_log_goes_on_in_a_new_file_after_rotation(pods, cluster):
    # The kubelet rotates at 10 MiB by default; a line is 1 KiB.
    pods.start(
        "talker", "yes $(head -c 1000 /dev/zero | tr '\\0' x) | head -n 14000; exec sleep 3600"
    )
    uid = pods.get("talker")["metadata"]["uid"]
    node = pods.get("talker")["spec"]["nodeName"]

    def rotated() -> Seen[list[str]] | NotYet:
        folder = cluster.folder / "nodes" / node / "var/log/pods"
        names = [path.name for path in folder.glob(f"*{uid}/main/*")]
        return Seen(names) if len(names) > 1 else NotYet(str(names))

    assert len(wait_until(rotated, what="the rotation", timeout_s=60)) > 1
