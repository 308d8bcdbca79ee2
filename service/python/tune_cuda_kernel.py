"""Tunes a CUDA kernel of one's own with Hone's search and races.

  protoc -I proto --python_out=stubs --grpc_python_out=stubs \\
    --plugin=protoc-gen-grpc_python=$(command -v grpc_python_plugin) \\
    hone/v1/study_service.proto
  PYTHONPATH=stubs python3 tune_cuda_kernel.py HONED_ADDRESS [STUDY_ID]

tune() works for any kernel library: give it another `measure`.
"""
import ctypes
import sys
import uuid

import grpc
from hone.v1 import study_service_pb2 as pb
from hone.v1 import study_service_pb2_grpc


class Failure(Exception):
    """A config that does not work: pb.STUDY_OUTCOME_..., and a text."""


def tune(stub, study_id, spec, measure):
    """Opens the study, or goes on with it, and returns its pb.StudyAnswer.
    measure(dict) times one call and returns nanoseconds, or raises Failure."""
    stub.OpenStudy(pb.OpenStudyRequest(study_id=study_id, spec=spec))
    while True:
        asked = stub.Suggest(pb.SuggestRequest(study_id=study_id))
        if not asked.rounds:  # decided
            return stub.GetStudy(pb.GetStudyRequest(study_id=study_id)).answer
        results = [pb.StudyResult(config=config) for config in asked.configs]
        for one_round in asked.rounds:
            for i in one_round.order:
                if results[i].HasField("failure"):
                    continue
                try:
                    ns = round(measure(dict(asked.configs[i].values)))
                    results[i].samples.samples.add(round=one_round.round, duration_ns=ns)
                except Failure as failure:
                    results[i].failure.outcome, results[i].failure.detail = failure.args
        stub.Report(pb.ReportRequest(study_id=study_id, results=results))


# out = 2 x + y, so large that caches do not help.
COUNT = 1 << 24
SOURCE = b"""
struct alignas(4 * VECTOR) Pack { float v[VECTOR]; };
extern "C" __global__ void __launch_bounds__(BLOCK < 1024 ? BLOCK : 1024)
add(const Pack* x, const Pack* y, Pack* out, int packs) {
  const int first = blockIdx.x * BLOCK * UNROLL + threadIdx.x;
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const int i = first + u * BLOCK;
    if (i >= packs) return;
    Pack a = x[i], b = y[i];
    for (int j = 0; j < VECTOR; ++j) a.v[j] = 2 * a.v[j] + b.v[j];
    out[i] = a;
  }
}
"""


def spec_of(device):  # blocks of 2048 threads will fail to launch
    spec = pb.StudySpec(problem=f"add count={COUNT}", device=device)
    spec.parameters.add(name="block", powers_of_two={"low": 64, "high": 2048})
    spec.parameters.add(name="unroll", range={"low": 1, "high": 8})
    spec.parameters.add(name="vector", powers_of_two={"low": 1, "high": 4})
    spec.baseline.values.update(block="128", unroll="1", vector="1")
    return spec


def compile_kernel(config, arch):
    """The cubin of a config, for an architecture like "sm_90"."""
    nvrtc, program, size = ctypes.CDLL("libnvrtc.so"), ctypes.c_void_p(), ctypes.c_size_t()
    options = [f"-D{name.upper()}={value}".encode() for name, value in config.items()]
    options.append(f"--gpu-architecture={arch}".encode())
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"add.cu", 0, None, None)
    array = (ctypes.c_char_p * len(options))(*options)
    if nvrtc.nvrtcCompileProgram(program, len(options), array):
        raise Failure(pb.STUDY_OUTCOME_COMPILE_ERROR, "NVRTC refused the source")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin


class Gpu:  # after a fault start another process with the same study id
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        name, arch = ctypes.create_string_buffer(96), "sm_"
        self.call("cuDeviceGetName", name, 96, 0)
        for attribute in (75, 76):  # compute capability, major and minor
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, 0)
            arch += str(value.value)
        self.name, self.arch, self.functions = name.value.decode(), arch, {}
        self.buffers = [ctypes.c_uint64() for _ in range(3)]
        for buffer, bits in zip(self.buffers, (0x3F800000, 0x40400000, 0)):  # 1, 3, 0
            self.call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4 * COUNT))
            self.call("cuMemsetD32_v2", buffer, bits, ctypes.c_size_t(COUNT))
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", ctypes.byref(event), 0)

    def call(self, name, *args, outcome=pb.STUDY_OUTCOME_LAUNCH_ERROR):
        if error := getattr(self.cuda, name)(*args):
            raise Failure(outcome, f"{name} returned {error}")

    def load(self, config):
        cubin = compile_kernel(config, self.arch)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
        self.call("cuMemsetD32_v2", self.buffers[2], 0, ctypes.c_size_t(COUNT))
        self.launch(config, function)
        out = (ctypes.c_float * COUNT)()
        self.call("cuMemcpyDtoH_v2", out, self.buffers[2], ctypes.c_size_t(4 * COUNT))
        if bytes(out) != bytes(ctypes.c_float(5)) * COUNT:
            raise Failure(pb.STUDY_OUTCOME_WRONG_RESULT, "not 2 x + y")
        return function

    def launch(self, config, function):
        packs, block = COUNT // int(config["vector"]), int(config["block"])
        values = [*self.buffers, ctypes.c_int(packs)]
        args = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])
        grid = -(-packs // (block * int(config["unroll"])))
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, args, None)

    def measure(self, config):
        key, milliseconds = str(config), ctypes.c_float()
        if key not in self.functions:
            self.functions[key] = self.load(config)
        self.call("cuEventRecord", self.events[0], None)
        self.launch(config, self.functions[key])
        self.call("cuEventRecord", self.events[1], None)
        self.call("cuEventSynchronize", self.events[1], outcome=pb.STUDY_OUTCOME_FAULT)
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), *self.events)
        return milliseconds.value * 1e6


if __name__ == "__main__":
    gpu, study = Gpu(), (sys.argv + [str(uuid.uuid4())])[2]
    client = study_service_pb2_grpc.StudyServiceStub(grpc.insecure_channel(sys.argv[1]))
    print(tune(client, study, spec_of(gpu.name), gpu.measure))
