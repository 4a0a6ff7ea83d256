# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights files as bitsandbytes writes them: taken bit by bit where the plan has blocks of the same form, as numbers elsewhere.

Where bitsandbytes is installed, its layers write the files, and its arithmetic says what they stand for.
"""
import json

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

import zoo
from harness import call, compare, compile_step, launch, make_config, make_data, parse_arguments, reference, run_cases
from quantized import FP4, FP4_CODES, NF4, SCALES, chosen, code, half_base, numbers_of, store, wide

try:
    from bitsandbytes import functional as bnb
except ImportError:
    bnb = None


def text_tensor(told):
    return torch.tensor(list(json.dumps(told).encode()), dtype=torch.uint8)


def coded(name, value, kind, block_size=64, double_quant=False, storage=torch.uint8):
    """The tensors of 4 bits in the place of one, and the numbers that they stand for. Codes are none that quantising gives: to
    quantise these numbers again would give others."""
    codes, scale, nested = code(value, kind, block_size, double_quant)
    codes = torch.randint(0, 16, codes.shape)
    numbers = numbers_of(codes, scale, nested, kind, value.shape, value.dtype)
    flat = codes.flatten()[:value.numel()]
    flat = nn.functional.pad(flat, (0, -len(flat) % (2 * storage.itemsize)), value=7 if kind == "nf4" else 0)
    table = NF4 if kind == "nf4" else torch.cat([FP4[FP4_CODES.argsort()], -FP4[FP4_CODES.argsort()]])
    told = {"quant_type": kind, "blocksize": block_size, "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    tensors = {name: (flat[0::2] << 4 | flat[1::2]).to(torch.uint8).view(storage).unsqueeze(1), f"{name}.quant_map": table, f"{name}.absmax": scale}
    if nested:
        scale_codes, shared, offset = nested
        told |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": offset.item()}
        tensors |= {f"{name}.absmax": scale_codes.to(torch.uint8), f"{name}.nested_absmax": shared, f"{name}.nested_quant_map": SCALES}
    return {**tensors, f"{name}.quant_state.bitsandbytes__{kind}": text_tensor(told)}, numbers


def of_library(name, value, kind, block_size=64, double_quant=False):
    """The same of bitsandbytes itself, whose kernels for processors know one scale in a row of less than a block."""
    codes, state = bnb.quantize_4bit(value, blocksize=block_size, compress_statistics=double_quant, quant_type=kind)
    tensors = {name: codes, **{f"{name}.{key}": part for key, part in state.as_dict(packed=True).items()}}
    state.shape = torch.Size([1, value.numel()])
    return tensors, bnb.dequantize_4bit(codes, state).view(value.shape)


def rows_of_8_bits(name, value):
    """LLM.int8()."""
    scale = value.float().abs().amax(1)
    codes = torch.randint(-127, 128, value.shape, dtype=torch.int8)
    module = name.removesuffix("weight")
    return {name: codes, f"{module}SCB": scale, f"{module}weight_format": torch.tensor(0, dtype=torch.uint8)}, (codes * scale.unsqueeze(1) * 7.874015718698502e-3).to(value.dtype)


def case(bin, world, write, quantize, words, factory=wide, given=False, same=True, exact=True, **config):
    """`write` makes the tensors of one; `words`: what a run says of them. `same`: they become those of the plan bit by bit."""
    def run(folder):
        torch.manual_seed(5)
        model, inputs = factory()
        settings = make_config(world, **({"quantize": quantize} if quantize is not None else {}), **config)
        data = make_data(inputs, 2 * world)
        save_file(data, folder / "data.safetensors")
        all_tensors, numbers = {}, {}
        for name, parameter in model.state_dict().items():
            all_tensors[name] = parameter.clone()
        for name, parameter in chosen(model, {}).items():
            tensors, numbers[name] = write(name, parameter.detach())
            all_tensors.pop(name)
            all_tensors |= {key: value.clone() for key, value in tensors.items()}
        save_file(all_tensors, folder / "coded.safetensors")
        save_file(model.state_dict(), folder / "plain.safetensors")
        done = compile_step(bin, folder, model, inputs, settings, options=[f"--weights={'plain' if given else 'coded'}.safetensors"])
        assert given or "are codes that bitsandbytes wrote" in done.stderr, done.stderr
        assert "are not used" not in done.stderr, done.stderr
        said = launch(bin, folder, world, "local", "step.fsdp", "--data=data.safetensors", "--steps=2", "--export=final.safetensors", "--metrics=metrics.jsonl", "--log-level=info",
                      *(["--weights=coded.safetensors"] if given else []))
        assert words in said, said
        final = load_file(folder / "final.safetensors")
        parameters = chosen(model, {})
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(numbers[name] if same or quantize is None else store(numbers[name], quantize))
        for name, parameter in parameters.items():
            want = parameter.detach()
            assert torch.equal(final[name], want) if exact else torch.allclose(final[name], want, rtol=1e-6, atol=0), \
                f"{name}: {(final[name] != want).sum()} of {want.numel()} numbers differ, by at most {(final[name].float() - want.float()).abs().max()}"
        if all(p.dtype == torch.float32 for p in parameters.values()):
            start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            want_rows, want, buffers = reference(model, inputs, data, world, 2, settings)
            compare(rows, final, want_rows, want, buffers, start)
    return run


def adapter_case(bin):
    """Adapters that the compiler puts in begin beside codes of a file; out of what codes lose they cannot."""
    def run(folder):
        torch.manual_seed(5)
        model, inputs = zoo.llama()
        save_file(make_data(inputs, 4), folder / "data.safetensors")
        model.requires_grad_(False)
        tensors, numbers = {key: value.clone() for key, value in model.state_dict().items()}, {}
        for name, parameter in chosen(model, {}).items():
            parts, numbers[name] = coded(name, parameter.detach(), "nf4")
            tensors.pop(name)
            tensors |= {key: value.clone() for key, value in parts.items()}
        save_file(tensors, folder / "coded.safetensors")
        for init, words in (("default", ""), ("loftq", "in codes already: give whole weights")):
            model.requires_grad_(True)
            compile_step(bin, folder, model, inputs, make_config(2, quantize={}, adapter={"r": 2, "dora": init == "default", "init": init}), options=["--weights=coded.safetensors"])
            done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=0", "--export-merged=merged.safetensors", cwd=folder)
            assert bool(done.returncode) == bool(words) and words in done.stderr, done.stderr
        merged = load_file(folder / "merged.safetensors")
        # Magnitudes are the norms of what codes stand for: nothing is changed before the first step.
        for name, value in numbers.items():
            assert torch.allclose(merged[name], value, rtol=1e-5, atol=1e-7), f"{name}: {(merged[name] - value).abs().max()}"
    return run


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}

    def form(**told):
        return lambda name, value: coded(name, value, **told)
    taken, again, read = "are taken as they are", "are coded again, as ", "are read as the numbers"
    double = {"kind": "nf4", "double_quant": True}
    cases["nf4, the same"] = case(bin, 2, form(kind="nf4"), {}, taken)
    cases["coded scales, the same, given"] = case(bin, 3, form(**double), double, taken, given=True)
    cases["fp4 of 128 in halves"] = case(bin, 2, form(kind="fp4", block_size=128, storage=torch.bfloat16), {"kind": "fp4", "block_size": 128}, taken, factory=half_base)
    cases["coded scales to plain ones"] = case(bin, 2, form(**double), {}, again + "nf4, which rounds a second time", same=False)
    cases["another kind, given"] = case(bin, 2, form(kind="fp4"), double, again + "nf4-double", same=False, given=True)
    cases["numbers"] = case(bin, 2, form(**double), None, read)
    cases["rows of 8 bits"] = case(bin, 2, rows_of_8_bits, None, "int8 by rows of bitsandbytes " + read)
    cases["rows of 8 bits, again"] = case(bin, 2, rows_of_8_bits, {"kind": "int8"}, again + "int8", same=False, given=True)
    cases["adapters of the config"] = adapter_case(bin)
    if bnb:
        for kind in ("nf4", "fp4"):
            for size in (64, 128, 512):
                for told in ({"kind": kind, "block_size": size}, {"kind": kind, "block_size": size, "double_quant": True}):
                    # Its vector code contracts what it adds.
                    cases[f"of the library, {told}"] = case(bin, 2, lambda name, value, told=told: of_library(name, value, **told), told, taken, exact=False)
        cases["of the library, in bfloat16"] = case(bin, 2, lambda name, value: of_library(name, value, **double), double, taken, factory=half_base)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
