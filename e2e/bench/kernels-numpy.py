"""The other side of `bench kernels`: numpy over the same files.

For each line {"kernel", "type", "files", "bytes", "passes"} on standard input, one line {"seconds", "value"}.
Threads are those of its BLAS (OPENBLAS_NUM_THREADS); everything else in numpy uses one.
"""

import json
import sys
import time

import numpy

TYPES = {
    "i32": numpy.int32,
    "i64": numpy.int64,
    "f32": numpy.float32,
    "f64": numpy.float64,
    "u8": numpy.uint8,
    "u16": numpy.uint16,
    "u32": numpy.uint32,
    "u64": numpy.uint64,
}


def edges(call):
    return float(call["low"]), float(call["high"])


KERNELS = {
    "sum": lambda a, b, call: a.sum(),
    "xor": lambda a, b, call: numpy.bitwise_xor.reduce(a),
    "dot_product": lambda a, b, call: numpy.dot(a, b),
    "min": lambda a, b, call: a.min(),
    "max": lambda a, b, call: a.max(),
    "histogram": lambda a, b, call: numpy.histogram(a, call["bins"], edges(call))[0],
}

loaded = {}


def load(path, kind, size):
    key = (path, kind, size)
    if key not in loaded:
        if len(loaded) > 1:
            loaded.clear()
        # In memory, not mapped: numpy's own and fastest way.
        loaded[key] = numpy.fromfile(path, TYPES[kind], size // numpy.dtype(TYPES[kind]).itemsize)
    return loaded[key]


for line in sys.stdin:
    call = json.loads(line)
    arrays = [load(path, call["type"], call["bytes"]) for path in call["files"]] + [None]
    seconds = []
    for _ in range(call["passes"]):
        began = time.perf_counter()
        value = KERNELS[call["kernel"]](arrays[0], arrays[1], call)
        seconds.append(time.perf_counter() - began)
    # As text: JSON has no integers of 64 bits that JavaScript could read.
    text = value.tolist() if call["kernel"] == "histogram" else str(value)
    print(json.dumps({"seconds": seconds, "value": text}), flush=True)
