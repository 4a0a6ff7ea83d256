# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""TorchScript models that do more than compute, or never end."""

import struct

from archives import HEAD, MODULE, flip_bit, make_zip, script, seed
from case import OPT, Case

COMPILE = [OPT, "model.pt", "--input=x:f32[2,2]"]
LOSS = "return torch.sum(x)"


def bodies():
    """name, forward, ids, texts"""
    yield "saves-a-file", f'torch.save(x, "stolen")\n{LOSS}', ("E037",), ("aten::save", "__torch__.Model.forward")
    yield "opens-a-file", 'y = torch.from_file("stolen", True, 4)\nreturn torch.sum(torch.add(x, torch.sum(y)))', ("E037",), ("aten::from_file",)
    yield "prints", f'print("x")\n{LOSS}', ("E037",), ("prim::Print",)
    yield "pads-a-constant", 'y = torch.ljust("", 2000000000, "x")\nreturn torch.sum(torch.add(x, torch.len(y)))', ("E037", "E014"), ()
    yield "replaces-texts", 's = "aa"\nfor a in range(10):\n  s = torch.replace(s, "a", "aaaaaaaaaa")\nreturn torch.sum(torch.add(x, torch.len(s)))', ("E037",), ()
    yield "doubles-a-constant", 's = "abcdefgh"\n' + "s = torch.add(s, s)\n" * 60 + "return torch.sum(torch.add(x, torch.len(s)))", ("E014", "E033", "E030"), ()
    yield "loops-for-ever", "i = 0\nwhile True:\n  i = torch.add(i, 1)\nreturn torch.sum(x)", ("E033",), ("1000000 times",)
    yield "loops-nested", "i = 0\nfor a in range(3000000000):\n  for b in range(3000000000):\n    i = torch.add(i, 1)\nreturn torch.sum(x)", ("E033",), ("1000000 times",)
    yield "doubles-a-list", "l = [1]\nfor a in range(60):\n  l = torch.add(l, l)\nreturn torch.sum(torch.add(x, torch.len(l)))", ("E033",), ("16000000",)
    yield "repeats-a-list", "l = torch.mul([1], 3000000000)\nreturn torch.sum(torch.add(x, torch.len(l)))", ("E033", "E030"), ()
    yield "doubles-a-text", 's = "abcdefgh"\nfor a in range(60):\n  s = torch.add(s, s)\nreturn torch.sum(torch.add(x, torch.len(s)))', ("E033",), ("65536",)
    yield "doubles-a-tuple", "t = (x, x)\n" + "t = (t, t)\n" * 60 + "return torch.sum(x)", ("E014", "E030", "E033"), ()
    yield "doubles-a-kept-tuple", "t0 = (1, 1)\n" + "".join(f"t{i + 1} = (t{i}, t{i})\n" for i in range(60)) + "y = annotate(Any, t60)\nif isinstance(y, int):\n  print(y)\nreturn torch.sum(x)", ("E014", "E030", "E033", "E037"), ()
    yield "huge-range", "l = [i for i in range(3000000000)]\nreturn torch.sum(torch.add(x, torch.len(l)))", ("E033",), ()


def cases():
    for name, body, ids, texts in bodies():
        # What cannot be stopped from within takes the processor's time until it is.
        long = "constant" in name or "tuple" in name
        yield Case(f"torchscript/{name}", {"model.pt": script(body)}, COMPILE, ids, texts, seconds=60 if long else 20,
                   megabytes=1600 if long else 900)
        if long:
            continue
        yield Case(f"torchscript/{name}-explain", {"model.pt": script(body)}, [*COMPILE, "--explain"],
                   ids + ("E031", "E033"), status=None)

    state = HEAD + ("  def __getstate__(self: __torch__.Model) -> int:\n    return 1\n"
                    '  def __setstate__(self: __torch__.Model,\n    state: int) -> NoneType:\n    torch.save(1, "stolen")\n')
    data = b"\x80\x02c__torch__\nModel\n)\x81K\x01b."
    for more in ([], ["--explain"]):
        yield Case("torchscript/setstate-saves" + "".join(more), {"model.pt": script(LOSS, head=state, data=data)}, [*COMPILE, *more],
                   ("E030",), ("__setstate__",), status=None if more else 1)
    call = HEAD + '  def helper(self: __torch__.Model,\n    x: Tensor) -> Tensor:\n    torch.save(x, "stolen")\n    return x\n'
    yield Case("torchscript/method-saves", {"model.pt": script("return torch.sum((self).helper(x, ))", head=call)}, COMPILE,
               ("E037",), ("aten::save", "helper"))
    function = {"m/code/__torch__/f.py": b'def helper(x: Tensor) -> Tensor:\n  torch.save(x, "stolen")\n  return x\n'}
    yield Case("torchscript/function-saves", {"model.pt": script("return torch.sum(__torch__.f.helper(x, ))", more=function)}, COMPILE,
               ("E037",), ("aten::save", "helper"))
    yield Case("torchscript/legacy", {"model.pt": script(LOSS, more={"m/Model.json": b"{}"})}, COMPILE, ("E030",))

    # Deep.
    yield Case("torchscript/deep-brackets", {"model.pt": script("y = " + "(" * 8000 + "x" + ")" * 8000 + f"\n{LOSS}")}, COMPILE,
               ("E014",), ("nests", "line 7"))
    yield Case("torchscript/deep-signs", {"model.pt": script("y = " + "-" * 8000 + f"x\n{LOSS}")}, COMPILE, ("E014",))
    yield Case("torchscript/deep-not", {"model.pt": script("y = " + "not " * 8000 + f"True\n{LOSS}")}, COMPILE, ("E014",))
    yield Case("torchscript/long-sum", {"model.pt": script("y = " + "+ ".join(["x"] * 8000) + f"\n{LOSS}")}, COMPILE, ("E014",))
    yield Case("torchscript/long-chain", {"model.pt": script("y = x" + ".t" * 8000 + f"\n{LOSS}")}, COMPILE, ("E014",))
    yield Case("torchscript/many-branches", {"model.pt": script("if True:\n  pass\n" + "elif True:\n  pass\n" * 2000 + LOSS)}, COMPILE, ("E014",))
    yield Case("torchscript/deep-blocks", {"model.pt": script("\n".join(" " * i + "if True:" for i in range(300)) + "\n" + " " * 300 + f"pass\n{LOSS}")},
               COMPILE, ("E014",))
    chain = "".join(f"def f{i}(x: Tensor) -> Tensor:\n  return __torch__.f.f{i + 1}(x, )\n" for i in range(800))
    yield Case("torchscript/deep-calls", {"model.pt": script("return torch.sum(__torch__.f.f0(x, ))", more={
        "m/code/__torch__/f.py": (chain + "def f800(x: Tensor) -> Tensor:\n  return x\n").encode()})}, COMPILE, ("E014",))
    tree = "".join(f"def f{i}(x: Tensor) -> Tensor:\n  return torch.add(__torch__.f.f{i + 1}(x, ), __torch__.f.f{i + 1}(x, ))\n" for i in range(60))
    yield Case("torchscript/calls-without-number", {"model.pt": script("return torch.sum(__torch__.f.f0(x, ))", more={
        "m/code/__torch__/f.py": (tree + "def f60(x: Tensor) -> Tensor:\n  return x\n").encode()})}, COMPILE, ("E014",))

    # Pickles.
    deep = b"\x80\x02" + b"(" * 30000 + b"t" * 30000 + b"."
    yield Case("torchscript/deep-data", {"model.pt": script(LOSS, data=deep)}, COMPILE, ("E014",), ("data.pkl", "nests"))
    yield Case("torchscript/deep-constants", {"model.pt": script(LOSS, constants=deep)}, COMPILE, ("E014",), ("constants.pkl",))
    text = b"\x80\x02X" + struct.pack("<I", 0x7fffffff) + b"x."
    yield Case("torchscript/long-text", {"model.pt": script(LOSS, constants=text)}, COMPILE, ("E014",), ("2147483647",))
    memo = b"\x80\x02)r" + struct.pack("<I", 0xffffffff) + b"."
    yield Case("torchscript/far-memo", {"model.pt": script(LOSS, constants=memo)}, COMPILE, ("E014",))
    cycle = b"\x80\x02]q\x00h\x00a\x85."
    yield Case("torchscript/holds-itself", {"model.pt": script(LOSS, constants=cycle)}, COMPILE, ("E014",), ("contains itself",))
    ways = b"\x80\x02N" + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(80)) + b"."
    yield Case("torchscript/endless-ways", {"model.pt": script(LOSS, constants=ways)}, COMPILE, ("E014",), ("ways",))
    yield Case("torchscript/odd-dict", {"model.pt": script(LOSS, constants=b"\x80\x02(Nd\x85.")}, COMPILE, ("E003",))
    system = b"\x80\x02cos\nsystem\nX\x0c\0\0\0touch stolen\x85R\x85."
    yield Case("torchscript/calls-system", {"model.pt": script(LOSS, constants=system)}, COMPILE, ("E007",), ("os.system",))
    packed = b"\x80\x02c__torch__.torch\nclasses.quantized.LinearPackedParamsBase\n)\x81}b\x85."
    yield Case("torchscript/native-class", {"model.pt": script(LOSS, constants=packed)}, COMPILE, ("E007",), ("torch.classes",))

    def tensor(count, size, entry=b"\0" * 16):
        storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuJ" + struct.pack("<i", count) + b"tQ"
        value = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0J" + struct.pack("<i", size) + b"\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR"
        return {"constants": b"\x80\x02" + value + b"\x85.", "more": {"m/constants/0": entry}}
    yield Case("torchscript/storage-beyond-entry", {"model.pt": script(LOSS, **tensor(1 << 30, 4))}, COMPILE, ("E003",), ("storage '0'",))
    yield Case("torchscript/tensor-beyond-storage", {"model.pt": script(LOSS, **tensor(4, 1 << 30))}, COMPILE, ("E003",), ("beyond its storage",))

    # Damaged.
    entries = seed("linear.pt")
    whole = make_zip(entries)
    yield Case("torchscript/weight-bit", {"model.pt": flip_bit(whole, entries["s/data/0"])}, [OPT, "model.pt", "--input=x:f32[2,2]"],
               ("E003",), ("data/0", "checksum"))
    yield Case("torchscript/code-bit", {"model.pt": flip_bit(whole, entries["s/code/__torch__.py"])}, COMPILE, ("E003",), ("checksum",))
