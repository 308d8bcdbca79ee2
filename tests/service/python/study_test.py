"""tune() of the example against a real honed that is killed on the way.

  study_test.py HONED EXAMPLE_FOLDER
"""
import ctypes
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest

import grpc

HONED, EXAMPLE = sys.argv[1:3]
sys.path.insert(0, EXAMPLE)
import tune_cuda_kernel as example  # noqa: E402
from hone.v1 import study_service_pb2 as pb  # noqa: E402
from hone.v1 import study_service_pb2_grpc  # noqa: E402

STUDY = "00000000-0000-4000-8000-000000000001"


class Honed:
    """A daemon that may be killed and started again on its database."""

    def __init__(self, folder):
        self.folder = folder
        self.start()

    def start(self):
        socket = os.path.join(self.folder, "honed.sock")
        self.log = open(os.path.join(self.folder, "log"), "ab")
        self.process = subprocess.Popen(
            [HONED, "--device=model:h200", f"--listen={socket}",
             f"--db={self.folder}/hone.db", f"--cache={self.folder}/cache"],
            stderr=self.log)
        self.channel = grpc.insecure_channel(f"unix:{socket}")
        grpc.channel_ready_future(self.channel).result(timeout=60)
        self.stub = study_service_pb2_grpc.StudyServiceStub(self.channel)

    def kill(self):
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.log.close()


class Killed(Exception):
    """Ends tune() where the caller is killed."""


class FakeKernel:
    """Times with noise, fastest at block=256, unroll=4, vector=2."""

    def __init__(self):
        self.random = random.Random(7)
        self.failures = {}
        self.calls = 0
        self.calls_left = 1000000

    def __call__(self, config):
        key = str(sorted(config.items()))
        assert key not in self.failures, f"{key} failed and was suggested again"
        self.calls += 1
        self.calls_left -= 1
        if self.calls_left == 0:
            raise Killed()
        if config["block"] == "2048":
            self.failures[key] = True
            raise example.Failure(pb.STUDY_OUTCOME_LAUNCH_ERROR, "too many threads")
        ns = 20000 * (1 + 0.1 * abs(math.log2(int(config["block"]) / 256))
                      + 0.04 * abs(int(config["unroll"]) - 4)
                      + 0.08 * abs(math.log2(int(config["vector"]) / 2)))
        noise = self.random.lognormvariate(0, 0.005)
        return ns * (1.3 if self.random.random() < 0.02 else noise)


class StudyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="hone-py-", dir="/tmp")
        self.addCleanup(self.folder.cleanup)
        self.honed = Honed(self.folder.name)
        self.addCleanup(lambda: self.honed.kill())

    def tune(self, kernel, study=STUDY):
        return example.tune(
            self.honed.stub, study, example.spec_of("a fake"), kernel)

    def test_the_right_config_wins_though_all_are_killed_on_the_way(self):
        kernel = FakeKernel()
        for _ in range(3):
            kernel.calls_left = 150
            with self.assertRaises(Killed):
                self.tune(kernel)
            # What was being measured is lost with its caller; its failures were
            # not reported.
            kernel.failures.clear()
            self.honed.kill()
            self.honed.start()
        kernel.calls_left = 1000000
        answer = self.tune(kernel)
        self.assertEqual(dict(answer.best.values),
                         {"block": "256", "unroll": "4", "vector": "2"})
        self.assertIn(answer.decision, (pb.STUDY_DECISION_RACE_SETTLED,
                                        pb.STUDY_DECISION_ROUND_LIMIT))
        self.assertGreaterEqual(answer.samples, 12)
        self.assertGreater(answer.margin, 0.2)
        calls = kernel.calls
        self.assertEqual(self.tune(kernel), answer)
        self.assertEqual(kernel.calls, calls)

    def test_failures_are_remembered_by_later_studies(self):
        kernel = FakeKernel()
        self.tune(kernel)
        self.assertGreater(len(kernel.failures), 0)
        self.honed.stub.CloseStudy(pb.CloseStudyRequest(study_id=STUDY))
        # The kernel refuses to be asked for one that failed.
        answer = self.tune(kernel, STUDY[:-1] + "2")
        self.assertTrue(answer.HasField("best"))

    def test_bad_input_names_the_field(self):
        spec = example.spec_of("a fake")
        spec.baseline.values["block"] = "100"
        with self.assertRaises(grpc.RpcError) as error:
            self.honed.stub.OpenStudy(
                pb.OpenStudyRequest(study_id=STUDY, spec=spec))
        self.assertEqual(error.exception.code(),
                         grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("spec.baseline.block: is \"100\"; it must be one of 64",
                      error.exception.details())

    def test_the_kernel_compiles(self):
        try:
            ctypes.CDLL("libnvrtc.so")
        except OSError as missing:
            self.skipTest(str(missing))
        for config in ({"block": "64", "unroll": "1", "vector": "1"},
                       {"block": "2048", "unroll": "8", "vector": "4"}):
            cubin = example.compile_kernel(config, "sm_90")
            self.assertEqual(cubin.raw[1:4], b"ELF")
        with self.assertRaises(example.Failure):
            example.compile_kernel({"block": "64"}, "sm_90")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
