"""Decide on one stream with onnxruntime and numpy alone: python onnx_stream.py model.onnx samples.csv 3.0"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
about = json.loads(session.get_modelmeta().custom_metadata_map["stopwise"])
types = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(float)": np.float32}
state = {i.name: np.zeros((1, *i.shape[1:]), types[i.type]) for i in session.get_inputs() if i.name != "x"}
if "held" in state:
    state["held"][:] = about["fill"]
names = [o.name.removeprefix("next_") for o in session.get_outputs()]
for x in np.loadtxt(sys.argv[2], delimiter=",", dtype=np.float64, ndmin=2):
    state = dict(zip(names, session.run(None, {"x": x[None]} | state)))
    second, first = np.sort(state["scores"][0])[-2:]
    if first - second >= float(sys.argv[3]):  # the SPRT with one threshold
        break
print(about["classes"][state["scores"].argmax()], int(state["time"][0]))
