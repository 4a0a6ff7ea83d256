# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the captured program of a synthetic decoder, or times the compiler's stages on one.

    decoder.py --layers 4 > decoder.mlir
    decoder.py --layers 126 --opt build/bin/fsdp-opt --seconds 20

Each layer has nine parameters and about 120 ops, as a Llama layer captured by fsdp-opt: normalisations, seven linear maps that are views, transposes and
matrix products, attention, a gated feed-forward part, and their gradients. The sizes are tiny: only the number of ops matters. With --opt the program runs
through all stages, the time is printed for each pass, and more than --seconds of processor time in all is an error.
"""
import argparse
import resource
import subprocess
import sys
import tempfile

SEQUENCE, WIDTH, HIDDEN, VOCABULARY = 8, 16, 32, 64


def tensor(*shape):
    return "tensor<" + "".join(f"{size}x" for size in shape) + "f32>"


class Program:
    """Text of one function; every method that adds an op returns its result's name."""

    def __init__(self):
        self.states, self.lines, self.types, self.gradients, self.count = [], [], {}, {}, 0

    def parameter(self, name, *shape):
        self.states.append((name, tensor(*shape)))
        self.types[value := f"%p{len(self.states)}"] = tensor(*shape)
        self.gradients[name] = None
        return value

    def op(self, name, operands, result, arguments=""):
        self.count += 1
        value = f"%v{self.count}"
        self.types[value] = result
        types = ", ".join(self.types[operand] for operand in operands)
        inside = ", ".join(list(operands) + ([arguments] if arguments else []))
        self.lines.append(f"    {value} = aten.{name}({inside}) : ({types}) -> {result}")
        return value

    def transposed(self, value, rows, columns):
        kind = f"tensor<{columns}x{rows}xf32, #aten.strides<1, {columns}>>"
        return self.op("t", [value], kind)

    def view(self, value, *shape):
        return self.op("view", [value], tensor(*shape), f"size = {list(shape)}")

    def linear(self, x, weight, inputs, outputs):
        flat = self.view(x, SEQUENCE, inputs)
        y = self.op("mm", [flat, self.transposed(weight, outputs, inputs)], tensor(SEQUENCE, outputs))
        return self.op("_unsafe_view", [y], tensor(1, SEQUENCE, outputs), f"size = [1, {SEQUENCE}, {outputs}]"), flat

    def linear_backward(self, name, gradient, flat, weight, inputs, outputs):
        g = self.view(gradient, SEQUENCE, outputs)
        self.gradients[name] = self.op("mm", [self.transposed(g, SEQUENCE, outputs), flat], tensor(outputs, inputs))
        return self.view(self.op("mm", [g, weight], tensor(SEQUENCE, inputs)), 1, SEQUENCE, inputs)

    def norm(self, x, weight):
        full, column = tensor(1, SEQUENCE, WIDTH), tensor(1, SEQUENCE, 1)
        mean = self.op("mean.dim", [self.op("pow.Tensor_Scalar", [x], full, "exponent = 2")], column, "dim = [-1], keepdim = true")
        scale = self.op("rsqrt", [self.op("add.Scalar", [mean], column, "other = 1.0e-05")], column)
        normed = self.op("mul.Tensor", [x, scale], full)
        return self.op("mul.Tensor", [weight, normed], full), (normed, scale)

    def norm_backward(self, name, gradient, saved, weight):
        normed, scale = saved
        full = tensor(1, SEQUENCE, WIDTH)
        self.gradients[name] = self.view(self.op("sum.dim_IntList", [self.op("mul.Tensor", [gradient, normed], full)], tensor(1, 1, WIDTH), "dim = [0, 1], keepdim = true"), WIDTH)
        g = self.op("mul.Tensor", [gradient, weight], full)
        dot = self.op("mean.dim", [self.op("mul.Tensor", [g, normed], full)], tensor(1, SEQUENCE, 1), "dim = [-1], keepdim = true")
        inner = self.op("sub.Tensor", [g, self.op("mul.Tensor", [normed, dot], full)], full)
        return self.op("mul.Tensor", [inner, scale], full)

    def elementwise(self, name, *operands):
        return self.op(name, operands, self.types[operands[0]])


def build(layers):
    p = Program()
    full = tensor(1, SEQUENCE, WIDTH)
    embedding = p.parameter("embed.weight", VOCABULARY, WIDTH)
    shapes = {"norm1": (WIDTH,), "q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH),
              "norm2": (WIDTH,), "gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
    weights = [{name: p.parameter(f"layers.{i}.{name}.weight", *shape) for name, shape in shapes.items()} for i in range(layers)]
    head = p.parameter("head.weight", VOCABULARY, WIDTH)
    p.types["%ids"] = f"tensor<1x{SEQUENCE}xi64>"
    x = p.op("embedding", [embedding, "%ids"], full)
    tape = []
    for w in weights:
        saved = {}
        n, saved["norm1"] = p.norm(x, w["norm1"])
        for name in "qkv":
            saved[name], saved[name + ".in"] = p.linear(n, w[name], WIDTH, WIDTH)
        scores = p.op("bmm", [saved["q"], p.op("transpose.int", [saved["k"]], f"tensor<1x{WIDTH}x{SEQUENCE}xf32, #aten.strides<{WIDTH * SEQUENCE}, 1, {WIDTH}>>", "dim0 = 1, dim1 = 2")],
                      tensor(1, SEQUENCE, SEQUENCE))
        saved["p"] = p.op("_softmax", [scores], tensor(1, SEQUENCE, SEQUENCE), "dim = -1, half_to_float = false")
        mixed = p.op("bmm", [saved["p"], saved["v"]], full)
        out, saved["o.in"] = p.linear(mixed, w["o"], WIDTH, WIDTH)
        x = p.elementwise("add.Tensor", x, out)
        n, saved["norm2"] = p.norm(x, w["norm2"])
        saved["gate"], saved["gate.in"] = p.linear(n, w["gate"], WIDTH, HIDDEN)
        saved["up"], saved["up.in"] = p.linear(n, w["up"], WIDTH, HIDDEN)
        saved["silu"] = p.elementwise("silu", saved["gate"])
        out, saved["down.in"] = p.linear(p.elementwise("mul.Tensor", saved["silu"], saved["up"]), w["down"], HIDDEN, WIDTH)
        x = p.elementwise("add.Tensor", x, out)
        tape.append(saved)
    logits, head_in = p.linear(x, head, WIDTH, VOCABULARY)
    loss = p.op("mean", [p.elementwise("sin", logits)], "tensor<f32>")

    g = p.elementwise("cos", logits)
    g = p.linear_backward("head.weight", g, head_in, head, WIDTH, VOCABULARY)
    for i, (w, saved) in reversed(list(enumerate(zip(weights, tape)))):
        path = f"layers.{i}."
        back = lambda name, gradient, inputs, outputs: p.linear_backward(f"{path}{name}.weight", gradient, saved[name + ".in"], w[name], inputs, outputs)
        h = back("down", g, HIDDEN, WIDTH)
        up = back("up", p.elementwise("mul.Tensor", h, saved["silu"]), WIDTH, HIDDEN)
        gate = back("gate", p.op("silu_backward", [p.elementwise("mul.Tensor", h, saved["up"]), saved["gate"]], tensor(1, SEQUENCE, HIDDEN)), WIDTH, HIDDEN)
        g = p.elementwise("add.Tensor", g, p.norm_backward(f"{path}norm2.weight", p.elementwise("add.Tensor", up, gate), saved["norm2"], w["norm2"]))
        mixed = back("o", g, WIDTH, WIDTH)
        flipped = f"tensor<1x{SEQUENCE}x{SEQUENCE}xf32, #aten.strides<{SEQUENCE * SEQUENCE}, 1, {SEQUENCE}>>"
        dv = p.op("bmm", [p.op("transpose.int", [saved["p"]], flipped, "dim0 = 1, dim1 = 2"), mixed], full)
        dp = p.op("bmm", [mixed, p.op("transpose.int", [saved["v"]], f"tensor<1x{WIDTH}x{SEQUENCE}xf32, #aten.strides<{WIDTH * SEQUENCE}, 1, {WIDTH}>>", "dim0 = 1, dim1 = 2")],
                  tensor(1, SEQUENCE, SEQUENCE))
        ds = p.op("_softmax_backward_data", [dp, saved["p"]], tensor(1, SEQUENCE, SEQUENCE), "dim = -1, input_dtype = f32")
        dq = p.op("bmm", [ds, saved["k"]], full)
        dk = p.op("bmm", [p.op("transpose.int", [ds], flipped, "dim0 = 1, dim1 = 2"), saved["q"]], full)
        total = p.elementwise("add.Tensor", back("q", dq, WIDTH, WIDTH), back("k", dk, WIDTH, WIDTH))
        total = p.elementwise("add.Tensor", total, back("v", dv, WIDTH, WIDTH))
        g = p.elementwise("add.Tensor", g, p.norm_backward(f"{path}norm1.weight", total, saved["norm1"], w["norm1"]))
    p.gradients["embed.weight"] = p.op("embedding_dense_backward", [g, "%ids"], tensor(VOCABULARY, WIDTH),
                                       f"num_weights = {VOCABULARY}, padding_idx = -1, scale_grad_by_freq = false")
    return p, loss


def write(layers):
    p, loss = build(layers)
    yield "module {"
    for i in range(layers):
        yield f'  fsdp.module "layers.{i}" class "Layer"'
    for name, kind in p.states:
        yield f"  fsdp.state parameter @{name} : {kind}"
    arguments = [f"%p{i}: {kind} {{fsdp.state = @{name}}}" for i, (name, kind) in enumerate(p.states, 1)]
    arguments.append(f'%ids: {p.types["%ids"]} {{fsdp.input = "ids"}}')
    results = ['tensor<f32> {fsdp.output = "loss"}'] + [f"{kind} {{fsdp.gradient = @{name}}}" for name, kind in p.states]
    yield f'  func.func @"train/step"({", ".join(arguments)})'
    yield f'      -> ({", ".join(results)}) attributes {{fsdp.captured}} {{'
    yield from p.lines
    values = [loss] + [p.gradients[name] for name, _ in p.states]
    yield f'    return {", ".join(values)} : {", ".join(["tensor<f32>"] + [kind for _, kind in p.states])}'
    yield "  }"
    yield "}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--opt", help="fsdp-opt to time")
    parser.add_argument("--layout", default="rows", help="of buckets")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    if not args.opt:
        for line in write(args.layers):
            print(line)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.writelines(line + "\n" for line in write(args.layers))
        file.flush()
        settings = f"shards<world = 64>, buckets<reshard = all, layout = {args.layout}>, optimizer<max_grad_norm = 1.0>"
        done = subprocess.run([args.opt, file.name, f"--fsdp-annotate=with={{{settings}}}", "--fsdp-pipeline", "--mlir-timing", "-o", "/dev/null"], stderr=subprocess.PIPE, text=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    print(done.stderr)
    if done.returncode:
        sys.exit(f"fsdp-opt failed with status {done.returncode}")
    print(f"{args.layers} layers in {seconds:.1f} s")
    if seconds > args.seconds:
        sys.exit(f"expected at most {args.seconds:.1f} s")


if __name__ == "__main__":
    main()
