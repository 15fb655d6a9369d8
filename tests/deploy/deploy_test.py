#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of deploy/ start jobs: each is read as its launcher reads it, and its processes are started here.

    deploy_test.py SOURCE PSUM              exits with 77 where there is no python3-yaml

What stands in for Kubernetes: a pod is a process with a host name of its own, with the variables, labels and names in
/etc/hosts that its controller gives to it. It has a name in the cluster's DNS only if the manifest asks for one. Slurm is
a private one. Apptainer is a script that runs the command.

With LOCKSTEP_TEST_SCHEMAS=FOLDER the manifests are also held to the CustomResourceDefinitions (*.yaml) and Kubernetes' own
schemas (*.json) in that folder, which then must have all of their kinds. Needs python3-jsonschema.
"""
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    print("there is no python3-yaml")
    sys.exit(77)

SOURCE, PSUM = Path(sys.argv[1]), Path(sys.argv[2])
DEPLOY = SOURCE / "deploy"
RECIPE = SOURCE / "tests" / "recipes" / "slurm-one-node.sh"
SCHEMAS = os.environ.get("LOCKSTEP_TEST_SCHEMAS")
SECRET = "of the cluster's Secret object"
# A network and names of the pods' own, then a host name for each of them.
ADDRESS = "10.77.2.1"
CLUSTER = ('ip link set lo up && ip link add pods type veth peer name node && ip link set pods up && '
           f'ip link set node up && ip address add {ADDRESS}/24 dev pods && mount --bind "$1" /etc/hosts && shift && exec "$@"')
POD = 'hostname "$1" && shift && exec "$@"'


def can_have_namespaces():
    return os.geteuid() == 0 and shutil.which("ip") and subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "true"], capture_output=True, check=False).returncode == 0


def documents(name):
    return {document["kind"]: document for document in yaml.safe_load_all((DEPLOY / name).read_text())}


class Pod:
    """One pod: what its template says, and what its controller adds."""

    def __init__(self, template, name, domain, labels, variables):
        self.name, self.domain = name, domain
        [self.container] = template["spec"]["containers"] if "spec" in template else [template]
        self.variables = {"PATH": os.environ["PATH"], "HOSTNAME": name, "KUBERNETES_SERVICE_HOST": "10.96.0.1",
                          "LOCKSTEP_TRUST": "everyone", "LOCKSTEP_INITIALIZATION_TIMEOUT": "30", **variables}
        for variable in self.container.get("env", []):
            source = variable.get("valueFrom", {})
            if "fieldRef" in source:
                label = source["fieldRef"]["fieldPath"]
                assert label.startswith("metadata.labels['") and label.endswith("']"), label
                value = labels[label[len("metadata.labels['"):-2]]
            elif "secretKeyRef" in source:
                value = SECRET
            else:
                value = variable["value"]
            assert isinstance(value, str), f"{variable['name']} is no text"  # Kubernetes refuses it
            self.variables[variable["name"]] = value


def pods_of_job(job, name, domain, labels):
    assert job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"]
    return [Pod(job["template"], f"{name}-{index}", domain, labels, {"JOB_COMPLETION_INDEX": str(index)})
            for index in range(job["completions"])]


def pods_of_indexed_job():
    service, job = (documents("kubernetes-job.yaml")[kind] for kind in ("Service", "Job"))
    name, spec = job["metadata"]["name"], job["spec"]
    # Only such a service gives names to pods, and before they are ready.
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"job-name": name}
    subdomain = spec["template"]["spec"]["subdomain"]
    assert subdomain == service["metadata"]["name"]
    return pods_of_job(spec, name, f"{subdomain}.default.svc.cluster.local", {})


def pods_of_jobset():
    jobset = documents("jobset.yaml")["JobSet"]
    name, pods = jobset["metadata"]["name"], []
    for replicated in jobset["spec"]["replicatedJobs"]:
        for index in range(replicated["replicas"]):
            labels = {"jobset.sigs.k8s.io/job-index": str(index), "jobset.sigs.k8s.io/restart-attempt": "0"}
            pods += pods_of_job(replicated["template"]["spec"], f"{name}-{replicated['name']}-{index}",
                                f"{name}.default.svc.cluster.local", labels)
    return pods


def pods_of_leader_worker_set():
    workers = documents("leaderworkerset.yaml")["LeaderWorkerSet"]
    name, spec = workers["metadata"]["name"], workers["spec"]
    template, size = spec["leaderWorkerTemplate"]["workerTemplate"], spec["leaderWorkerTemplate"]["size"]
    leader = f"{name}-{spec['replicas'] - 1}"  # of the last group; each is a job
    return [Pod(template, f"{leader}-{index}" if index else leader, f"{name}.default.svc.cluster.local", {},
                {"LWS_LEADER_ADDRESS": f"{leader}.{name}.default", "LWS_GROUP_SIZE": str(size),
                 "LWS_WORKER_INDEX": str(index)}) for index in range(size)]


def pods_of_train_job():
    job = documents("trainjob.yaml")["TrainJob"]
    name, spec = job["metadata"]["name"], job["spec"]
    assert spec["runtimeRef"] == {"name": "jax-distributed"}
    nodes = spec["trainer"]["numNodes"]
    return [Pod(spec["trainer"], f"{name}-node-0-{index}", f"{name}.default.svc.cluster.local", {},
                {"JOB_COMPLETION_INDEX": str(index), "JAX_NUM_PROCESSES": str(nodes), "JAX_PROCESS_ID": str(index),
                 "JAX_COORDINATOR_ADDRESS": f"{name}-node-0-0.{name}:29500"}) for index in range(nodes)]


class Kubernetes(unittest.TestCase):
    def runs(self, pods, cluster):
        if not can_have_namespaces():
            self.skipTest("no namespaces can be made here")
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
            hosts.write("127.0.0.1 localhost\n")
            for pod in pods:  # its name first, in full, as the kubelet writes it; then what DNS would complete
                full, space = pod.domain, pod.domain.removesuffix(".svc.cluster.local")
                names = (f"{pod.name}.{full}", pod.name, f"{pod.name}.{space}", f"{pod.name}.{space.split('.')[0]}")
                hosts.write(f"{ADDRESS} {' '.join(names)}\n")
            hosts.flush()
            starts = [shlex.join(["unshare", "--uts", "sh", "-c", POD, "sh", pod.name, "env", "-i",
                                  *(f"{name}={value}" for name, value in pod.variables.items()), str(PSUM)])
                      for pod in pods]
            done = subprocess.run(["unshare", "--net", "--mount", "sh", "-c", CLUSTER, "sh", hosts.name,
                                   "sh", "-c", " & ".join([*starts, "wait"])], capture_output=True, text=True, timeout=100,
                                  check=False)
        wanted = [f"process {index}: psum gives {len(pods)}" for index in range(len(pods))]
        self.assertEqual(sorted(done.stdout.splitlines()), wanted, done.stderr)
        self.assertIn(f"[process 0 of {len(pods)}] cluster {cluster} (", done.stderr)
        self.assertNotIn("is open to everybody", done.stderr)

    def test_indexed_job(self):
        self.runs(pods_of_indexed_job(), "k8s")

    def test_jobset(self):
        self.runs(pods_of_jobset(), "k8s")

    def test_leader_worker_set(self):
        self.runs(pods_of_leader_worker_set(), "lws")

    def test_train_job(self):
        self.runs(pods_of_train_job(), "explicit")

    def test_pods_know_the_secret(self):
        for make in (pods_of_indexed_job, pods_of_jobset, pods_of_leader_worker_set, pods_of_train_job):
            self.assertEqual({pod.variables.get("LOCKSTEP_JOB_SECRET") for pod in make()}, {SECRET}, make)

    @unittest.skipUnless(SCHEMAS, "LOCKSTEP_TEST_SCHEMAS is not set")
    def test_published_schemas(self):
        import jsonschema  # pylint: disable=import-outside-toplevel
        folder = Path(SCHEMAS).resolve()
        schemas = published_schemas(folder)
        shared = {f"file:///api/{path.name}": read_json(path) for path in folder.glob("_*.json")}
        for path in sorted(DEPLOY.glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                what = (document["apiVersion"], document["kind"])
                self.assertIn(what, schemas, f"{SCHEMAS} has no schema of it")
                schema, place = schemas[what]
                with self.subTest(path=path.name, what=what):
                    jsonschema.validate(document, schema, resolver=jsonschema.RefResolver(place.as_uri(), schema, shared))
                    print(f"{path.name}: {what[1]} is as in {place.name}", file=sys.stderr)


def read_json(path):
    """Without its address, so that what it refers to is looked for here."""
    content = json.loads(path.read_text())
    content.pop("$id", None)
    return content


def published_schemas(folder):
    """By API version and kind: the schema, and its file."""
    schemas = {}
    for path in sorted(folder.glob("*.yaml")):
        crd = yaml.safe_load(path.read_text())
        for version in crd["spec"]["versions"]:
            what = (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
            schemas[what] = strict(version["schema"]["openAPIV3Schema"]), path
    for path in sorted(folder.glob("*.json")):
        schema = read_json(path)
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            schemas["/".join(filter(None, (kind["group"], kind["version"]))), kind["kind"]] = schema, path
    return schemas


def strict(schema):
    """The schema with unknown fields refused; what is in `metadata` is not in these schemas."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: strict(value) for name, value in schema.items()}
    if isinstance(result.get("properties"), dict) and result.get("type") == "object":
        result.setdefault("additionalProperties", False)
    if result.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
    return result


class Slurm(unittest.TestCase):
    def test_scripts(self):
        for program in ("slurmctld", "slurmd", "sbatch", "munged", "setpriv"):
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")
        if not can_have_namespaces():
            self.skipTest("no namespaces can be made here")
        with tempfile.TemporaryDirectory() as folder:
            apptainer = Path(folder) / "apptainer"
            apptainer.write_text('#!/bin/sh\n[ "$1" = exec ] && [ "$2" = train.sif ] && shift 2 && exec "$@"\n')
            apptainer.chmod(0o755)
            batch = "sbatch --wait -N 2 --ntasks-per-node 2 -o"
            both = (f"{batch} {folder}/plain {DEPLOY}/slurm.sh {PSUM} & "
                    f"{batch} {folder}/container {DEPLOY}/slurm.sh apptainer exec train.sif {PSUM} & wait")
            done = subprocess.run([RECIPE, "-N", "2", "sh", "-c", both], capture_output=True, text=True, timeout=100,
                                  check=False, env={**os.environ, "LOCKSTEP_TRUST": "everyone",
                                                    "PATH": f"{folder}:{os.environ['PATH']}"})
            for name in ("plain", "container"):
                log = (Path(folder) / name).read_text() if (Path(folder) / name).exists() else ""
                wanted = [f"process {index}: psum gives 4" for index in range(4)]
                self.assertEqual(sorted(line for line in log.splitlines() if line.startswith("process")), wanted,
                                 f"{name}: {log} {done.stderr}")
                self.assertIn("[process 0 of 4] cluster slurm (", log)
                self.assertNotIn("is open to everybody", log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
