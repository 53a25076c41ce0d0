# What a layer of a checkpoint of 4 or 8 bits calls is what `quern warm --config` of its config.json names.
# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import quern.library
from quern import packing

BUILD = Path(quern.library.library()._name).resolve().parents[1]
HIDDEN = 256
CONFIG = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 256,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 256,
    "max_position_embeddings": 64,
    "torch_dtype": "bfloat16",
}
BF16 = ml_dtypes.bfloat16


def named(folder, quantisation):
    """The lines of the list, for the host."""
    file = folder / "config.json"
    file.write_text(json.dumps(CONFIG | {"quantization_config": quantisation}))
    run = subprocess.run(
        [BUILD / "bin" / "quern", "manifest", "--config", file, "--target", "host", "--allow-missing"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(run.stdout.splitlines())


def words(rng, *shape):
    return rng.integers(-(2**31), 2**31, shape, dtype=np.int64).astype(np.int32)


def awq(rng, rows):
    codes, zeros = packing.from_awq(words(rng, HIDDEN, rows // 8), words(rng, 2, rows // 8))
    return {"b": codes, "zero_b": zeros, "b_format": "uint4", "scale_b": np.ones((2, rows), BF16).T}


def gptq(rng, rows):
    codes, _ = packing.from_gptq(words(rng, HIDDEN // 8, rows), words(rng, 4, rows // 8))
    return {"b": codes, "b_format": "uint4", "scale_b": np.ones((4, rows), BF16).T}


def pack_quantized(rng, rows):
    codes = words(rng, rows, HIDDEN // 8).view(np.uint8)
    return {"b": codes, "b_format": "uint4", "scale_b": np.ones((rows, 4), BF16)}


def int_quantized(rng, rows):
    codes = rng.integers(-127, 128, (rows, HIDDEN)).astype(np.int8)
    return {"b": codes, "scale_b": np.ones(rows, np.float32)}


def nvfp4(rng, rows):
    return {
        "b": words(rng, rows, HIDDEN // 8).view(np.uint8), "b_format": "e2m1",
        "scale_b": np.ones((rows, HIDDEN // 16), ml_dtypes.float8_e4m3fn), "tensor_scale_b": np.ones(1, np.float32),
    }  # fmt: skip


def group(bits, strategy, inputs=None):
    weights = {"num_bits": bits, "type": "int", "strategy": strategy, "group_size": 64, "symmetric": True}
    return {"config_groups": {"group_0": {"weights": weights, "input_activations": inputs}}}


COMPRESSED = {"quant_method": "compressed-tensors"}
INT8 = {"num_bits": 8, "type": "int", "symmetric": True}


@pytest.mark.parametrize(
    ("quantisation", "weights"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, awq),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True}, gptq),
        (COMPRESSED | {"format": "pack-quantized"} | group(4, "group"), pack_quantized),
        (COMPRESSED | {"format": "int-quantized"} | group(8, "channel", INT8), int_quantized),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, nvfp4),
    ],
    ids=["awq", "gptq", "pack_quantized", "int_quantized", "nvfp4"],
)
def test_layers_call_what_the_list_names(cache_folder, tmp_path, rng, quantisation, weights):
    listed = named(tmp_path, quantisation)
    with quern.Context("host", cache_path=cache_folder) as context:
        for tokens, gate in ((3, False), (20, True)):
            call = weights(rng, 64)
            x = rng.standard_normal((tokens, HIDDEN)).astype(BF16)
            if call["b"].dtype == np.int8:
                x, call["scale_a"] = np.ones((tokens, HIDDEN), np.int8), np.ones(tokens, np.float32)
            more = {"gate": True, "activation": "silu"} if gate else {}
            context.quantized_gemm(x, call.pop("b"), out_dtype="bf16", **call, **more)
        made = set(context.manifest().splitlines())
    assert len(made) == 2
    assert made <= listed
