import base64
import stat

import pytest
import yaml

from labkit.errors import BadInput
from labkit.kube import kubeconfig


def write(path, user=None, **cluster):
    config = {
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_the_current_context_is_read(tmp_path):
    access = kubeconfig.read(write(tmp_path / "config", {"token": "secret"}))
    assert access.server == "http://127.0.0.1:1"
    assert access.namespace == "default"
    assert access.headers == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(access)


def test_a_missing_context_is_named_beside_those_there_are(tmp_path):
    with pytest.raises(BadInput, match="no context 'there'; it has: here"):
        kubeconfig.read(write(tmp_path / "config"), context="there")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        kubeconfig.read(tmp_path / "config")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "config").write_text("kind: Pod")
    with pytest.raises(BadInput, match="is not a kubeconfig"):
        kubeconfig.read(tmp_path / "config")


def test_a_token_may_lie_in_a_file_beside(tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    access = kubeconfig.read(write(tmp_path / "config", {"tokenFile": "token"}))
    assert access.headers == {"Authorization": "Bearer from-file"}


def test_a_credential_plugin_is_asked(tmp_path):
    plugin = tmp_path / "plugin"
    plugin.write_text('#!/bin/sh\necho "{\\"status\\": {\\"token\\": \\"$WORD\\"}}"\n')
    plugin.chmod(stat.S_IRWXU)
    user = {"exec": {"command": str(plugin), "env": [{"name": "WORD", "value": "spoken"}]}}
    access = kubeconfig.read(write(tmp_path / "config", user))
    assert access.headers == {"Authorization": "Bearer spoken"}


def test_a_plugin_that_fails_is_named(tmp_path):
    user = {"exec": {"command": "no-such-plugin"}}
    with pytest.raises(BadInput, match="'no-such-plugin' gave no credentials"):
        kubeconfig.read(write(tmp_path / "config", user))


def test_a_password_is_basic_authentication(tmp_path):
    access = kubeconfig.read(write(tmp_path / "config", {"username": "a", "password": "b"}))
    assert access.headers["Authorization"].split()[1] == base64.b64encode(b"a:b").decode()
