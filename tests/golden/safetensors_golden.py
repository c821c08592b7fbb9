# SPDX-License-Identifier: Apache-2.0
# Writes from_python.safetensors (safetensors 0.8.0, torch 2.15.0): the values test_safetensors.c expects.
import os
import torch
from safetensors.torch import save_file

tensors = {
    "a.weight": torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8,
    "b": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "ids": torch.tensor([[1, 2], [3, -4]], dtype=torch.int64),
    "scalar": torch.tensor(0.1, dtype=torch.float64),
    "empty": torch.zeros((0, 3), dtype=torch.float32),
    "bytes": torch.tensor([0, 127, 255], dtype=torch.uint8),
    "h": torch.tensor([-5], dtype=torch.int32),
}
here = os.path.dirname(os.path.abspath(__file__))
save_file(tensors, os.path.join(here, "from_python.safetensors"), metadata={"format": "pt", "origin": "safetensors"})
