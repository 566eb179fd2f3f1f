import re

import pytest

from labkit.errors import BadInput
from labkit.paths import data_dir
from labkit.tools import catalog
from labkit.tools.platforms import Platform

LINUX = Platform(system="linux", machine="arm64")
MAC = Platform(system="darwin", machine="arm64")


@pytest.mark.parametrize("name", catalog.names())
def test_the_catalogue_and_the_pins_speak_of_the_same_versions(name):
    tool = catalog.tool(name, on=LINUX)
    pins = (data_dir("clusters") / "tools" / tool.build.pins / "go.mod").read_text()
    assert re.search(rf"^require \S+ v{re.escape(tool.version)}$", pins, re.MULTILINE)
    assert re.search(rf"^\s*(tool )?{re.escape(tool.build.package)}$", pins, re.MULTILINE)


@pytest.mark.parametrize("name", catalog.names())
def test_an_address_names_version_and_platform(name):
    release = catalog.tool(name, on=LINUX).release
    assert release
    assert "arm64" in release.url
    assert catalog.tool(name, on=LINUX).version in release.url


def test_servers_are_not_published_for_macos_and_kubectl_is():
    assert catalog.tool("kubelet", on=MAC).release is None
    assert "darwin/arm64/kubectl" in catalog.tool("kubectl", on=MAC).release.url


def test_what_runs_on_linux_only_is_not_built_elsewhere():
    for name in catalog.names():
        systems = catalog.tool(name, on=MAC).build.systems
        assert ("darwin" in systems) == (name not in ("kubelet", "runc"))


def test_etcd_comes_in_the_archive_of_its_platform():
    assert catalog.tool("etcd", on=LINUX).release.url.endswith("-linux-arm64.tar.gz")
    assert catalog.tool("etcd", on=MAC).release.url.endswith("-darwin-arm64.zip")


def test_another_patch_of_the_same_minor_serves_and_another_minor_does_not():
    kubelet = catalog.tool("kubelet", kubernetes_version="1.37.0", on=LINUX)
    assert kubelet.version == "1.37.0"
    assert kubelet.fits((1, 37, 9))
    assert not kubelet.fits((1, 36, 9))
    assert not kubelet.fits((1, 38, 0))
    assert not kubelet.fits(())


@pytest.mark.parametrize("version", ["1.37", "latest", "1.37.x", ""])
def test_a_version_that_is_none_is_refused(version):
    with pytest.raises(BadInput, match="is not a version"):
        catalog.tool("kubelet", kubernetes_version=version, on=LINUX)


def test_an_unknown_tool_is_told_beside_the_known_ones():
    with pytest.raises(BadInput, match="no tool 'kubelt'") as caught:
        catalog.tool("kubelt", on=LINUX)
    assert "kubelet" in caught.value.hint
