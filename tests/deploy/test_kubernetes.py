"""deploy/kubernetes: against the operator's and Kubernetes' schemas, the chart's keys, and our own rules."""

from __future__ import annotations

import copy
import functools
import importlib.resources
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy.compose import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
IMAGE = "registry.example/labelgrove:0.1.0"
OURS = ("DaskCluster", "DaskJob")
# Keys of the chart dask/dask (values.yaml and templates of helm-chart, 2023.10): it has no schema of its own. What a
# later chart has come to call otherwise is not seen here.
COMMON = {"image", "env", "extraArgs", "resources", "securityContext", "livenessProbe", "readinessProbe", "replicas"}
COMMON |= {"name", "tolerations", "affinity", "nodeSelector", "serviceAccountName", "metrics"}
CHART = {
    "": {"nameOverride", "fullnameOverride", "scheduler", "webUI", "worker", "additional_worker_groups", "jupyter"},
    "scheduler": COMMON | {"enabled", "serviceType", "loadBalancerIP", "servicePort", "serviceAnnotations"},
    "worker": COMMON
    | {"strategy", "custom_scheduler_url", "default_resources", "mounts", "annotations", "port", "portDashboard"}
    | {"threads_per_worker"},
    "jupyter": {"enabled"},
    "image": {"repository", "tag", "pullPolicy", "dask_worker", "pullSecrets"},
    "mounts": {"volumes", "volumeMounts"},
}


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


FILES = ("volume.yaml", "settings.yaml", "cluster.yaml", "job.yaml", "submit.yaml")
EVERY = [(name, number) for name in FILES for number in range(len(documents(name)))]


def closed(schema: Any) -> Any:
    """The schema with unknown keys refused, as `kubectl --validate=strict` does."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    free = found.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in found
    if found.get("type") == "object" and isinstance(found.get("properties"), dict) and not free:
        found["additionalProperties"] = False
    return found


@functools.cache
def operator_schema(kind: str) -> jsonschema.Draft7Validator:
    """Of a kind of the operator, from the definitions that come with dask-kubernetes."""
    charts = importlib.resources.files("dask_kubernetes") / "operator" / "deployment" / "helm"
    text = (charts / "dask-kubernetes-operator" / "crds" / f"{kind.lower()}.yaml").read_text(encoding="utf-8")
    (definition,) = (
        found for found in yaml.load_all(text, yaml.CSafeLoader) if found and found["spec"]["names"]["kind"] == kind
    )
    (version,) = (version for version in definition["spec"]["versions"] if version["name"] == "v1")
    schema: dict[str, Any] = closed(version["schema"]["openAPIV3Schema"])
    schema["properties"] |= {"apiVersion": {"const": "kubernetes.dask.org/v1"}, "kind": {"const": kind}, "metadata": {}}
    return jsonschema.Draft7Validator(schema)


def pods(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(part, spec) of every pod that a document describes."""
    spec = document.get("spec", {})
    if document["kind"] == "Job":
        yield "driver", spec["template"]["spec"]
    if document["kind"] == "DaskJob":
        yield "driver", spec["job"]["spec"]
        spec = spec["cluster"]["spec"]
    if document["kind"] in OURS:
        yield "worker", spec["worker"]["spec"]
        yield "scheduler", spec["scheduler"]["spec"]


EVERY_POD = [(name, part, spec) for name in FILES for document in documents(name) for part, spec in pods(document)]


def wrong(document: dict[str, Any]) -> list[str]:
    """What the schemas find: that of the document, and strictly that of every pod in it."""
    found = []
    if document["kind"] in OURS:
        errors = operator_schema(document["kind"]).iter_errors(document)
        found += [f"{list(error.absolute_path)}: {error.message[:200]}" for error in errors]
        whole = [
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": part}, "spec": spec}
            for part, spec in pods(document)
        ]
    else:
        whole = [document]
    for one in whole:
        try:
            kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{list(error.path)}: {error.message[:200]}")
    return found


@pytest.mark.parametrize(("name", "number"), EVERY)
def test_every_document_is_what_its_schema_says(name: str, number: int) -> None:
    assert wrong(documents(name)[number]) == []


def keys_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every key that is not of a map of free keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if path and path[-1] in ("data", "selector", "requests", "limits", "metadata"):
                continue
            yield (*path, key)
            yield from keys_of(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from keys_of(inner, (*path, i))


@pytest.mark.parametrize("name", ["cluster.yaml", "job.yaml", "submit.yaml", "volume.yaml"])
def test_a_typo_in_any_key_is_found(name: str) -> None:
    (document,) = documents(name)
    unseen = []
    paths = [path for path in keys_of(document) if path[0] == "spec" and len(path) > 1]
    assert len(paths) >= 3
    for path in paths[:: max(1, len(paths) // 16)]:  # each asks every schema: some of them
        broken = copy.deepcopy(document)
        place: Any = broken
        for part in path[:-1]:
            place = place[part]
        place[f"{path[-1]}x"] = place.pop(path[-1])
        try:
            unseen += [] if wrong(broken) else [path]
        except KeyError:
            continue  # what the test itself looks for is gone
    assert unseen == []


@pytest.mark.parametrize(("part", "spec"), [pytest.param(*pod[1:], id="-".join(pod[:2])) for pod in EVERY_POD])
def test_every_pod_is_nobody_of_note_limited_and_watched(part: str, spec: dict[str, Any]) -> None:
    (container,) = spec["containers"]
    assert container["image"] == IMAGE
    assert (spec["securityContext"]["runAsNonRoot"], spec["securityContext"]["runAsUser"]) == (True, 1000)
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]
    assert spec["restartPolicy"] == ("Never" if part == "driver" else "Always")
    assert container["envFrom"] == [{"configMapRef": {"name": "labelgrove-settings"}}]
    assert "env" not in container
    mounted = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounted["tls"]["readOnly"] is True
    assert {volume["name"] for volume in spec["volumes"]} == set(mounted)
    if part == "driver":
        return
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == "/health"
        assert container[probe]["httpGet"]["port"] in ports
    assert f":{ports['http-dashboard']}" in " ".join(container["args"])


def gibibytes(text: str) -> int:
    found = re.search(r"(\d+)Gi?B?$", text)
    assert found is not None, text
    return int(found[1])


def test_the_nanny_acts_before_the_kernel() -> None:
    workers = [(spec["containers"][0], name) for name, part, spec in EVERY_POD if part == "worker"]
    assert len(workers) == 2
    for container, name in workers:
        (limit,) = (word for word in container["args"] if word.startswith("--memory-limit"))
        assert gibibytes(limit) < gibibytes(container["resources"]["limits"]["memory"]), name
    values = documents("values.yaml")[0]["worker"]
    assert gibibytes(values["extraArgs"][0]) < gibibytes(values["resources"]["limits"]["memory"])


def test_names_fit_together() -> None:
    for name in ("cluster.yaml", "job.yaml"):
        (document,) = documents(name)
        called = document["metadata"]["name"]
        spec = document["spec"] if name == "cluster.yaml" else document["spec"]["cluster"]["spec"]
        assert spec["scheduler"]["service"]["selector"]["dask.org/cluster-name"] == called
        assert f"tls://{called}-scheduler:8786" in spec["worker"]["spec"]["containers"][0]["args"]
    (cluster,), (job,), (submitted,) = (documents(name) for name in ("cluster.yaml", "job.yaml", "submit.yaml"))
    address = f"--scheduler=tls://{job['metadata']['name']}-scheduler:8786"
    assert address in job["spec"]["job"]["spec"]["containers"][0]["args"]
    address = f"--scheduler=tls://{cluster['metadata']['name']}-scheduler:8786"
    assert address in submitted["spec"]["template"]["spec"]["containers"][0]["args"]
    there = {document["metadata"]["name"] for name in FILES for document in documents(name)}
    for _, _, spec in EVERY_POD:
        for volume in spec["volumes"]:
            named = volume.get("persistentVolumeClaim", {}).get("claimName") or volume.get("configMap", {}).get("name")
            assert named is None or named in there
            assert volume.get("secret", {}).get("secretName", "labelgrove-tls") == "labelgrove-tls"


def test_helm_values_have_keys_of_the_chart() -> None:
    (values,) = documents("values.yaml")
    assert set(values) <= CHART[""]
    for part in ("scheduler", "worker", "jupyter"):
        assert set(values[part]) <= CHART[part], part
    for part in ("scheduler", "worker"):
        assert set(values[part]["image"]) <= CHART["image"]
        assert f"{values[part]['image']['repository']}:{values[part]['image']['tag']}" == IMAGE
        assert values[part]["securityContext"]["runAsNonRoot"] is True
    assert set(values["worker"]["mounts"]) <= CHART["mounts"]
    assert values["worker"]["custom_scheduler_url"] == f"tls://{values['fullnameOverride']}-scheduler:8786"
    assert values["worker"]["livenessProbe"]["httpGet"]["port"] == 8790  # the chart's portDashboard


def test_helm_makes_valid_containers_of_the_values() -> None:
    """What the chart puts into pods as it is, strictly by Kubernetes' schema."""
    (values,) = documents("values.yaml")
    for part in ("scheduler", "worker"):
        given = copy.deepcopy(values[part])
        container = {key: given[key] for key in ("env", "resources", "livenessProbe", "readinessProbe")}
        container |= {"name": part, "image": IMAGE, "volumeMounts": given.get("mounts", {}).get("volumeMounts", [])}
        spec = {"containers": [container], "securityContext": given["securityContext"]}
        spec["volumes"] = given.get("mounts", {}).get("volumes", [])
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": part}, "spec": spec}
        assert wrong(pod) == []
        container["env"][1]["valueFrom"]["secretKeyReff"] = container["env"][1]["valueFrom"].pop("secretKeyRef")
        assert wrong(pod) != []


def test_files_and_helm_say_the_same_of_tls() -> None:
    settings = documents("settings.yaml")[0]["data"]
    (values,) = documents("values.yaml")
    for part in ("scheduler", "worker"):
        given = {
            entry["name"]: entry.get("value") or f"/tls/{entry['valueFrom']['secretKeyRef']['key']}"
            for entry in values[part]["env"]
        }
        assert given == settings
    text = "".join(path.read_text() for path in FOLDER.iterdir() if path.suffix == ".yaml")
    assert "tcp://" not in text
    assert "BEGIN" not in text


def test_the_page_names_every_file() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = sorted(path.name for path in Path(FOLDER).iterdir() if path.name != "README.md")
    assert [name for name in files if name not in text] == []
