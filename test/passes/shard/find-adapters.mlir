// RUN: fsdp-opt %s --fsdp-find-adapters --split-input-file --remarks-filter=adapters -o %t.mlir 2> %t.remarks
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=SAY < %t.remarks
// RUN: fsdp-opt %t.mlir --split-input-file --verify-roundtrip -o %t.again

// A layer with a bias and its adapter, both of the same rows; scaled behind the
// second product, and what is left of the factor by the sum.

// CHECK:      module attributes {fsdp.adapters = [#fsdp.adapter<base = @w, down = @a, up = @b, scale = 6.000000e+00>]} {
// SAY:        remark: [Passed] Mergeable | Category:adapters | Function=train/step | Reason="their products are", Remark="'b' times 'a' can be added to 'w'"
module {
  fsdp.state frozen @w : tensor<6x4xf32>
  fsdp.state frozen @c : tensor<6xf32>
  fsdp.state parameter @a : tensor<2x4xf32>
  fsdp.state parameter @b : tensor<6x2xf32>
  func.func @"train/step"(%w: tensor<6x4xf32> {fsdp.state = @w}, %c: tensor<6xf32> {fsdp.state = @c}, %a: tensor<2x4xf32> {fsdp.state = @a}, %b: tensor<6x2xf32> {fsdp.state = @b}, %x: tensor<8x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2x4xf32> {fsdp.gradient = @a}, tensor<6x2xf32> {fsdp.gradient = @b}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<6x4xf32>) -> tensor<4x6xf32, #aten.strides<1, 4>>
    %y = aten.addmm(%c, %x, %wt) : (tensor<6xf32>, tensor<8x4xf32>, tensor<4x6xf32, #aten.strides<1, 4>>) -> tensor<8x6xf32>
    %at = aten.t(%a) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %h = aten.mm(%x, %at) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %bt = aten.t(%b) : (tensor<6x2xf32>) -> tensor<2x6xf32, #aten.strides<1, 2>>
    %d = aten.mm(%h, %bt) : (tensor<8x2xf32>, tensor<2x6xf32, #aten.strides<1, 2>>) -> tensor<8x6xf32>
    %s = aten.mul.Scalar(%d, other = 2.0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %z = aten.add.Tensor(%y, %s, alpha = 3) : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    %loss = aten.sum(%z) : (tensor<8x6xf32>) -> tensor<f32>
    // Backward, which reads the matrices as well.
    %g = aten.ones_like(%z) : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %gt = aten.t(%g) : (tensor<8x6xf32>) -> tensor<6x8xf32, #aten.strides<1, 6>>
    %gb = aten.mm(%gt, %h) : (tensor<6x8xf32, #aten.strides<1, 6>>, tensor<8x2xf32>) -> tensor<6x2xf32>
    %gh = aten.mm(%g, %b) : (tensor<8x6xf32>, tensor<6x2xf32>) -> tensor<8x2xf32>
    %ght = aten.t(%gh) : (tensor<8x2xf32>) -> tensor<2x8xf32, #aten.strides<1, 2>>
    %ga = aten.mm(%ght, %x) : (tensor<2x8xf32, #aten.strides<1, 2>>, tensor<8x4xf32>) -> tensor<2x4xf32>
    return %loss, %ga, %gb : tensor<f32>, tensor<2x4xf32>, tensor<6x2xf32>
  }
}

// -----

// transformers' Conv1D multiplies by its matrix as it is; through views, casts,
// copies and dropout, whose factor keeps the mean. A constant divides, and the sum has
// another part, too.

// CHECK:      module attributes {fsdp.adapters = [#fsdp.adapter<base = @w, down = @a, up = @b, scale = 5.000000e-01, base_is_in_by_out = true>]} {
// SAY:        [Passed] Mergeable
module {
  fsdp.state frozen @w : tensor<4x6xbf16>
  fsdp.state frozen @c : tensor<6xf32>
  fsdp.state parameter @a : tensor<2x4xf32>
  fsdp.state parameter @b : tensor<6x2xf32>
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"train/step"(%w: tensor<4x6xbf16> {fsdp.state = @w}, %c: tensor<6xf32> {fsdp.state = @c}, %a: tensor<2x4xf32> {fsdp.state = @a}, %b: tensor<6x2xf32> {fsdp.state = @b}, %r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<2x4x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %xh = aten._to_copy(%x, dtype = bf16) : (tensor<2x4x4xf32>) -> tensor<2x4x4xbf16>
    %xv = aten.view(%xh, size = [8, 4]) : (tensor<2x4x4xbf16>) -> tensor<8x4xbf16>
    %y = aten.mm(%xv, %w) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %yv = aten.view(%y, size = [2, 4, 6]) : (tensor<8x6xbf16>) -> tensor<2x4x6xbf16>
    %yf = aten._to_copy(%yv, dtype = f32) : (tensor<2x4x6xbf16>) -> tensor<2x4x6xf32>
    %yc = aten.add.Tensor(%yf, %c) : (tensor<2x4x6xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
    %m = fsdp.draw bernoulli with [0.8] site 0 from %r : (tensor<2xi64>) -> tensor<2x4x4xi1>
    %k = aten.mul.Tensor(%x, %m) : (tensor<2x4x4xf32>, tensor<2x4x4xi1>) -> tensor<2x4x4xf32>
    %p = aten.mul.Scalar(%k, other = 1.25) : (tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %pv = aten.view(%p, size = [8, 4]) : (tensor<2x4x4xf32>) -> tensor<8x4xf32>
    %ac = aten.clone(%a) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %at = aten.permute(%ac, dims = [1, 0]) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %h = aten.mm(%pv, %at) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %hf = aten.mul.Scalar(%h, other = 2) : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %hh = aten._to_copy(%hf, dtype = bf16) : (tensor<8x2xf32>) -> tensor<8x2xbf16>
    %bh = aten._to_copy(%b, dtype = bf16) : (tensor<6x2xf32>) -> tensor<6x2xbf16>
    %bt = aten.t(%bh) : (tensor<6x2xbf16>) -> tensor<2x6xbf16, #aten.strides<1, 2>>
    %d = aten.mm(%hh, %bt) : (tensor<8x2xbf16>, tensor<2x6xbf16, #aten.strides<1, 2>>) -> tensor<8x6xbf16>
    %four = fsdp.constant dense<4.0> : tensor<f32>
    %df = aten._to_copy(%d, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %q = aten.div.Tensor(%df, %four) : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
    %qv = aten.view(%q, size = [2, 4, 6]) : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
    %z = aten.add.Tensor(%qv, %yc) : (tensor<2x4x6xf32>, tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
    %loss = aten.sum(%z) : (tensor<2x4x6xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// The sum as one product; the same adapter in two calls of its layer.

// CHECK:      module attributes {fsdp.adapters = [#fsdp.adapter<base = @w, down = @a, up = @b, scale = 2.000000e+00>]} {
// SAY:        [Passed] Mergeable
module {
  fsdp.state frozen @w : tensor<4x4xf32>
  fsdp.state parameter @a : tensor<2x4xf32>
  fsdp.state parameter @b : tensor<4x2xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %a: tensor<2x4xf32> {fsdp.state = @a}, %b: tensor<4x2xf32> {fsdp.state = @b}, %x: tensor<8x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at = aten.t(%a) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt = aten.t(%b) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %y = aten.mm(%x, %wt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h = aten.mm(%x, %at) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %z = aten.addmm(%y, %h, %bt, alpha = 2) : (tensor<8x4xf32>, tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %i = aten.relu(%z) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %y2 = aten.mm(%i, %wt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h2 = aten.mm(%i, %at) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %z2 = aten.addmm(%y2, %h2, %bt, alpha = 2) : (tensor<8x4xf32>, tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %loss = aten.sum(%z2) : (tensor<8x4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// The base is trained, or its product is read elsewhere, too.

// CHECK:      module {
// SAY:        [Missed] StaysBeside | Category:adapters | Function=train/step | Reason="what it is added to is no product with a frozen matrix, or is read elsewhere, too", Remark="'b' is of no adapter that can be merged into a frozen matrix"
// SAY:        Reason="what it is added to is no product with a frozen matrix, or is read elsewhere, too", Remark="'d' is of no adapter
module {
  fsdp.state parameter @w : tensor<4x4xf32>
  fsdp.state frozen @v : tensor<4x4xf32>
  fsdp.state parameter @a : tensor<2x4xf32>
  fsdp.state parameter @b : tensor<4x2xf32>
  fsdp.state parameter @c : tensor<2x4xf32>
  fsdp.state parameter @d : tensor<4x2xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %v: tensor<4x4xf32> {fsdp.state = @v}, %a: tensor<2x4xf32> {fsdp.state = @a}, %b: tensor<4x2xf32> {fsdp.state = @b}, %c: tensor<2x4xf32> {fsdp.state = @c}, %d: tensor<4x2xf32> {fsdp.state = @d}, %x: tensor<8x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at = aten.t(%a) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt = aten.t(%b) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %y = aten.mm(%x, %wt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h = aten.mm(%x, %at) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e = aten.mm(%h, %bt) : (tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %z = aten.add.Tensor(%y, %e) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %vt = aten.t(%v) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %ct = aten.t(%c) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %dt = aten.t(%d) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %y2 = aten.mm(%z, %vt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h2 = aten.mm(%z, %ct) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e2 = aten.mm(%h2, %dt) : (tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %z2 = aten.add.Tensor(%y2, %e2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %q = aten.mul.Tensor(%z2, %y2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %loss = aten.sum(%q) : (tensor<8x4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// Another input; a scale that is trained; a second product with a bias.

// CHECK:      module {
// SAY:        Reason="it reads another input than the frozen matrix whose product it is added to", Remark="'b' is
// SAY:        Reason="its scale is no constant number", Remark="'b2' is
// SAY:        Reason="its second product has a bias", Remark="'b3' is
module {
  fsdp.state frozen @w : tensor<4x4xf32>
  fsdp.state parameter @a : tensor<2x4xf32>
  fsdp.state parameter @b : tensor<4x2xf32>
  fsdp.state frozen @w2 : tensor<4x4xf32>
  fsdp.state parameter @a2 : tensor<2x4xf32>
  fsdp.state parameter @b2 : tensor<4x2xf32>
  fsdp.state parameter @s : tensor<f32>
  fsdp.state frozen @w3 : tensor<4x4xf32>
  fsdp.state parameter @a3 : tensor<2x4xf32>
  fsdp.state parameter @b3 : tensor<4x2xf32>
  fsdp.state parameter @c3 : tensor<4xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %a: tensor<2x4xf32> {fsdp.state = @a}, %b: tensor<4x2xf32> {fsdp.state = @b}, %w2: tensor<4x4xf32> {fsdp.state = @w2}, %a2: tensor<2x4xf32> {fsdp.state = @a2}, %b2: tensor<4x2xf32> {fsdp.state = @b2}, %s: tensor<f32> {fsdp.state = @s}, %w3: tensor<4x4xf32> {fsdp.state = @w3}, %a3: tensor<2x4xf32> {fsdp.state = @a3}, %b3: tensor<4x2xf32> {fsdp.state = @b3}, %c3: tensor<4xf32> {fsdp.state = @c3}, %x: tensor<8x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at = aten.t(%a) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt = aten.t(%b) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %n = aten.neg(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %y = aten.mm(%x, %wt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h = aten.mm(%n, %at) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e = aten.mm(%h, %bt) : (tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %z = aten.add.Tensor(%y, %e) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %wt2 = aten.t(%w2) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at2 = aten.t(%a2) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt2 = aten.t(%b2) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %y2 = aten.mm(%z, %wt2) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h2 = aten.mm(%z, %at2) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e2 = aten.mm(%h2, %bt2) : (tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %s2 = aten.mul.Tensor(%e2, %s) : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %z2 = aten.add.Tensor(%y2, %s2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %wt3 = aten.t(%w3) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at3 = aten.t(%a3) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt3 = aten.t(%b3) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %y3 = aten.mm(%z2, %wt3) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h3 = aten.mm(%z2, %at3) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e3 = aten.addmm(%c3, %h3, %bt3) : (tensor<4xf32>, tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %z3 = aten.add.Tensor(%y3, %e3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %loss = aten.sum(%z3) : (tensor<8x4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A matrix that is tied to another product's, and two adapters of one base.

// CHECK:      module {
// SAY:        Reason="'a' is read elsewhere, too", Remark="'b' is
// SAY:        Reason="another one is added to 'w2', too", Remark="'b2' is
// SAY:        Reason="another one is added to 'w2', too", Remark="'b3' is
module {
  fsdp.state frozen @w : tensor<4x4xf32>
  fsdp.state parameter @a : tensor<4x4xf32>
  fsdp.state parameter @b : tensor<4x4xf32>
  fsdp.state frozen @w2 : tensor<4x4xf32>
  fsdp.state parameter @a2 : tensor<2x4xf32>
  fsdp.state parameter @b2 : tensor<4x2xf32>
  fsdp.state parameter @a3 : tensor<2x4xf32>
  fsdp.state parameter @b3 : tensor<4x2xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %a: tensor<4x4xf32> {fsdp.state = @a}, %b: tensor<4x4xf32> {fsdp.state = @b}, %w2: tensor<4x4xf32> {fsdp.state = @w2}, %a2: tensor<2x4xf32> {fsdp.state = @a2}, %b2: tensor<4x2xf32> {fsdp.state = @b2}, %a3: tensor<2x4xf32> {fsdp.state = @a3}, %b3: tensor<4x2xf32> {fsdp.state = @b3}, %x: tensor<8x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at = aten.t(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %bt = aten.t(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %i = aten.mm(%x, %at) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %j = aten.relu(%i) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %y = aten.mm(%j, %wt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h = aten.mm(%j, %at) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %e = aten.mm(%h, %bt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %z = aten.add.Tensor(%y, %e) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %wt2 = aten.t(%w2) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at2 = aten.t(%a2) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt2 = aten.t(%b2) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %at3 = aten.t(%a3) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt3 = aten.t(%b3) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %y2 = aten.mm(%z, %wt2) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h2 = aten.mm(%z, %at2) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e2 = aten.mm(%h2, %bt2) : (tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %z2 = aten.add.Tensor(%y2, %e2) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %h3 = aten.mm(%z, %at3) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e3 = aten.mm(%h3, %bt3) : (tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %z3 = aten.add.Tensor(%z2, %e3) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %loss = aten.sum(%z3) : (tensor<8x4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// A matrix of eight bits is none that anything can be added to.

// CHECK:      module {
// SAY:        Reason="what it is added to is no product with a frozen matrix, or is read elsewhere, too", Remark="'b' is
module {
  fsdp.state frozen @w : tensor<4x4xf8E4M3FN>
  fsdp.state parameter @a : tensor<2x4xf32>
  fsdp.state parameter @b : tensor<4x2xf32>
  func.func @"train/step"(%w: tensor<4x4xf8E4M3FN> {fsdp.state = @w}, %a: tensor<2x4xf32> {fsdp.state = @a}, %b: tensor<4x2xf32> {fsdp.state = @b}, %x: tensor<8x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %wf = aten._to_copy(%w, dtype = f32) : (tensor<4x4xf8E4M3FN>) -> tensor<4x4xf32>
    %wt = aten.t(%wf) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %at = aten.t(%a) : (tensor<2x4xf32>) -> tensor<4x2xf32, #aten.strides<1, 4>>
    %bt = aten.t(%b) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<1, 2>>
    %y = aten.mm(%x, %wt) : (tensor<8x4xf32>, tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<8x4xf32>
    %h = aten.mm(%x, %at) : (tensor<8x4xf32>, tensor<4x2xf32, #aten.strides<1, 4>>) -> tensor<8x2xf32>
    %e = aten.mm(%h, %bt) : (tensor<8x2xf32>, tensor<2x4xf32, #aten.strides<1, 2>>) -> tensor<8x4xf32>
    %z = aten.add.Tensor(%y, %e) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %loss = aten.sum(%z) : (tensor<8x4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}

// -----

// What trains nothing has none; what an earlier compile left goes.

// CHECK:      module {
module attributes {fsdp.adapters = [#fsdp.adapter<base = @w, down = @w, up = @w>]} {
  fsdp.state frozen @w : tensor<4x4xf32>
  func.func @"infer/step"(%w: tensor<4x4xf32> {fsdp.state = @w}) -> (tensor<4x4xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    return %w : tensor<4x4xf32>
  }
}

// -----

// Those that capture put in are known, and stay.

// CHECK:      fsdp.adapter_settings = #fsdp.adapter_settings<rank = 2, alpha = 3.0
// CHECK-SAME: fsdp.adapters = [#fsdp.adapter<base = @w, down = @a, up = @b, scale = 1.5
module attributes {fsdp.adapter_settings = #fsdp.adapter_settings<rank = 2, alpha = 3.0>, fsdp.adapters = [#fsdp.adapter<base = @w, down = @a, up = @b, scale = 1.5>]} {
  fsdp.state frozen @w : tensor<4x4xf32>
  fsdp.state parameter @a : tensor<2x4xf32>
  fsdp.state parameter @b : tensor<4x2xf32>
  func.func @"train/step"(%w: tensor<4x4xf32> {fsdp.state = @w}, %a: tensor<2x4xf32> {fsdp.state = @a}, %b: tensor<4x2xf32> {fsdp.state = @b})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %loss = aten.sum(%w) : (tensor<4x4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
