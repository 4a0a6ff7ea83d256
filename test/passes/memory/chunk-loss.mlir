// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={step<loss_chunks = 2>, validation<files = ["held"]>}' --fsdp-chunk-loss --fsdp-add-validation --fsdp-verify-captured | FileCheck %s
// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={shards<world = 2>, step<loss_chunks = 2>}' --fsdp-pipeline -o %t
// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={step<loss_chunks = 0>}' --fsdp-chunk-loss | FileCheck %s --check-prefix=WHOLE
// RUN: fsdp-opt %s --split-input-file --fsdp-chunk-loss | FileCheck %s --check-prefix=WHOLE

// Each chunk's gradients follow its loss; the mean divides by the labels that
// count, of all rows; the numbers that the loss needs come behind all chunks.

module {
  // WHOLE-LABEL: func.func @"train/step"
  // WHOLE:       aten.nll_loss_forward(%{{.+}}, reduction = 1,
  // WHOLE-NOT:   fsdp.pack
  // CHECK-LABEL: func.func @"train/step"
  // CHECK-SAME:  (%[[W:[a-z0-9]+]]: tensor<16x4xf32> {fsdp.state = @w}, %{{[a-z0-9]+}}: tensor<4x4xf32>
  // CHECK:       %[[H:.+]] = aten.mm({{.+}} -> tensor<7x4xf32>
  // CHECK:       %[[T:.+]] = aten.t(%[[W]])
  // CHECK-DAG:   %[[Y:.+]] = aten._to_copy({{.+}} -> tensor<7xi64>
  // CHECK-DAG:   %[[ONE:.+]] = aten.full(size = [], fill_value = 1, dtype = f32)
  // CHECK:       %[[VALID:.+]] = aten.ne.Scalar(%[[Y]], other = -100)
  // CHECK:       %[[COUNT:.+]] = aten.sum(%[[VALID]]) : (tensor<7xi1>) -> tensor<i64>
  // CHECK:       %[[TOTAL:.+]] = aten._to_copy(%[[COUNT]], dtype = f32)
  // CHECK:       %[[H0:.+]] = aten.slice.Tensor(%[[H]], start = 0, end = 4)
  // CHECK:       %[[L0:.+]] = aten.mm(%[[H0]], %[[T]]) {{.+}} -> tensor<4x16xf32>
  // CHECK:       %[[P0:.+]] = aten._log_softmax(%[[L0]], dim = 1, half_to_float = false)
  // CHECK:       %[[Y0:.+]] = aten.slice.Tensor(%[[Y]], start = 0, end = 4)
  // CHECK:       %[[N0:.+]]:2 = aten.nll_loss_forward(%[[P0]], %[[Y0]], reduction = 2, ignore_index = -100)
  // CHECK:       %[[G0:.+]] = aten.nll_loss_backward(%[[ONE]], %[[P0]], %[[Y0]], none, %[[TOTAL]], reduction = 1, ignore_index = -100)
  // CHECK:       %[[D0:.+]] = aten._log_softmax_backward_data(%[[G0]], %[[P0]], dim = 1
  // CHECK:       %[[DT0:.+]] = aten.t(%[[D0]])
  // CHECK:       %[[DW0:.+]] = aten.mm(%[[DT0]], %[[H0]]) {{.+}} -> tensor<16x4xf32>
  // CHECK:       %[[DH0:.+]] = aten.mm(%[[D0]], %[[W]]) {{.+}} -> tensor<4x4xf32>
  // The last chunk is shorter.
  // CHECK:       %[[H1:.+]] = aten.slice.Tensor(%[[H]], start = 4, end = 7)
  // CHECK:       %[[N1:.+]]:2 = aten.nll_loss_forward({{.+}}tensor<3x16xf32>
  // CHECK:       %[[DT1:.+]] = aten.t(
  // CHECK:       %[[DW:.+]] = aten.addmm(%[[DW0]], %[[DT1]], %[[H1]])
  // CHECK:       %[[DH1:.+]] = aten.mm({{.+}}, %[[W]]) {{.+}} -> tensor<3x4xf32>
  // CHECK:       %[[N:.+]] = aten.add.Tensor(%[[N0]]#0, %[[N1]]#0)
  // CHECK:       %[[LOSS:.+]] = aten.div.Tensor(%[[N]], %[[TOTAL]])
  // CHECK:       %[[PACK:.+]] = fsdp.pack(%[[DH0]], %[[DH1]]) at [0, 16] : tensor<4x4xf32>, tensor<3x4xf32> -> tensor<28xf32>
  // CHECK:       %[[DH:.+]] = aten.view(%[[PACK]], size = [7, 4])
  // CHECK-NOT:   tensor<7x16xf32>
  // CHECK:       return %[[LOSS]], %[[DW]],

  // The program that validates is the chunks' forward.
  // CHECK-LABEL: func.func @"eval/step"
  // CHECK-COUNT-2: aten.nll_loss_forward
  // CHECK-NOT:   backward
  // CHECK-NOT:   aten.addmm
  // CHECK:       aten.div.Tensor
  // CHECK-NEXT:  return
  fsdp.state parameter @w : tensor<16x4xf32>
  fsdp.state parameter @v : tensor<4x4xf32>
  func.func @"train/step"(%w: tensor<16x4xf32> {fsdp.state = @w}, %v: tensor<4x4xf32> {fsdp.state = @v}, %x: tensor<7x4xf32> {fsdp.input = "x"}, %y: tensor<7xi32> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x4xf32> {fsdp.gradient = @w}, tensor<4x4xf32> {fsdp.gradient = @v}) attributes {fsdp.captured} {
    %h = aten.mm(%x, %v) : (tensor<7x4xf32>, tensor<4x4xf32>) -> tensor<7x4xf32>
    %t = aten.t(%w) : (tensor<16x4xf32>) -> tensor<4x16xf32, #aten.strides<1, 4>>
    %l = aten.mm(%h, %t) : (tensor<7x4xf32>, tensor<4x16xf32, #aten.strides<1, 4>>) -> tensor<7x16xf32>
    %l3 = aten.view(%l, size = [1, 7, 16]) : (tensor<7x16xf32>) -> tensor<1x7x16xf32>
    %rows = aten.view(%l3, size = [7, 16]) : (tensor<1x7x16xf32>) -> tensor<7x16xf32>
    %labels = aten._to_copy(%y, dtype = i64) : (tensor<7xi32>) -> tensor<7xi64>
    %p = aten._log_softmax(%rows, dim = 1, half_to_float = false) : (tensor<7x16xf32>) -> tensor<7x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %labels, none, reduction = 1, ignore_index = -100) : (tensor<7x16xf32>, tensor<7xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.ones_like(%n#0, memory_format = "preserve") : (tensor<f32>) -> tensor<f32>
    %g = aten.nll_loss_backward(%one, %p, %labels, none, %n#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<7x16xf32>, tensor<7xi64>, tensor<f32>) -> tensor<7x16xf32>
    %d = aten._log_softmax_backward_data(%g, %p, dim = 1, input_dtype = f32) : (tensor<7x16xf32>, tensor<7x16xf32>) -> tensor<7x16xf32>
    %dt = aten.t(%d) : (tensor<7x16xf32>) -> tensor<16x7xf32, #aten.strides<1, 16>>
    %dw = aten.mm(%dt, %h) : (tensor<16x7xf32, #aten.strides<1, 16>>, tensor<7x4xf32>) -> tensor<16x4xf32>
    %dh = aten.mm(%d, %w) : (tensor<7x16xf32>, tensor<16x4xf32>) -> tensor<7x4xf32>
    %xt = aten.t(%x) : (tensor<7x4xf32>) -> tensor<4x7xf32, #aten.strides<1, 4>>
    %dv = aten.mm(%xt, %dh) : (tensor<4x7xf32, #aten.strides<1, 4>>, tensor<7x4xf32>) -> tensor<4x4xf32>
    return %n#0, %dw, %dv : tensor<f32>, tensor<16x4xf32>, tensor<4x4xf32>
  }
}

// -----

// A bias, logits that are divided, labels that are smoothed: what is small
// leaves the chunks as rows or as sums.

module {
  // CHECK-LABEL: func.func @"train/step"
  // CHECK:       %[[L0:.+]] = aten.addmm(%[[B:.+]], %{{.+}}, %{{.+}}) {{.+}} -> tensor<4x16xf32>
  // CHECK:       %[[S0:.+]] = aten.div.Scalar(%[[L0]], other = 3.0
  // CHECK:       %[[P0:.+]] = aten._log_softmax(%[[S0]], dim = 1
  // CHECK:       aten.nll_loss_forward(%[[P0]]
  // CHECK:       %[[R0:.+]] = aten.sum.dim_IntList(%[[P0]], dim = [1]) {{.+}} -> tensor<4xf32>
  // CHECK:       %[[G0:.+]] = aten.nll_loss_backward(
  // CHECK:       %[[E0:.+]] = aten.slice.Tensor(%{{.+}}, start = 0, end = 4) {{.+}} -> tensor<4x16xf32, #aten.strides<1, 0>>
  // CHECK:       %[[A0:.+]] = aten.add.Tensor(%[[G0]], %[[E0]])
  // CHECK:       %[[D0:.+]] = aten._log_softmax_backward_data(%[[A0]], %[[P0]]
  // CHECK:       %[[F0:.+]] = aten.div.Scalar(%[[D0]], other = 3.0
  // CHECK:       %[[DB0:.+]] = aten.sum.dim_IntList(%[[F0]], dim = [0], keepdim = true) {{.+}} -> tensor<1x16xf32>
  // CHECK:       %[[R1:.+]] = aten.sum.dim_IntList({{.+}} -> tensor<4xf32>
  // CHECK:       %[[DB1:.+]] = aten.sum.dim_IntList({{.+}}, dim = [0], keepdim = true)
  // CHECK:       %[[DB:.+]] = aten.add.Tensor(%[[DB0]], %[[DB1]])
  // CHECK:       %[[R:.+]] = fsdp.pack(%[[R0]], %[[R1]]) at [0, 4] {{.+}} -> tensor<8xf32>
  // CHECK:       aten.neg(%[[R]])
  // CHECK:       aten.view(%[[DB]], size = [16])
  fsdp.state parameter @w : tensor<16x4xf32>
  fsdp.state parameter @b : tensor<16xf32>
  func.func @"train/step"(%w: tensor<16x4xf32> {fsdp.state = @w}, %b: tensor<16xf32> {fsdp.state = @b}, %h: tensor<8x4xf32> {fsdp.input = "x"}, %labels: tensor<8xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x4xf32> {fsdp.gradient = @w}, tensor<16xf32> {fsdp.gradient = @b}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<16x4xf32>) -> tensor<4x16xf32, #aten.strides<1, 4>>
    %l = aten.addmm(%b, %h, %t) : (tensor<16xf32>, tensor<8x4xf32>, tensor<4x16xf32, #aten.strides<1, 4>>) -> tensor<8x16xf32>
    %l3 = aten.view(%l, size = [2, 4, 16]) : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %s = aten.div.Scalar(%l3, other = 3.0) : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %rows = aten.view(%s, size = [8, 16]) : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %p = aten._log_softmax(%rows, dim = 1, half_to_float = false) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %labels, none, reduction = 1, ignore_index = -100) : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
    %sum = aten.sum.dim_IntList(%p, dim = [1]) : (tensor<8x16xf32>) -> tensor<8xf32>
    %minus = aten.neg(%sum) : (tensor<8xf32>) -> tensor<8xf32>
    %ignored = aten.eq.Scalar(%labels, other = -100) : (tensor<8xi64>) -> tensor<8xi1>
    %kept = aten.masked_fill.Scalar(%minus, %ignored, value = 0.0) : (tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>
    %smooth = aten.sum(%kept) : (tensor<8xf32>) -> tensor<f32>
    %loss = aten.add.Tensor(%n#0, %smooth) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %one = aten.ones_like(%loss, memory_format = "preserve") : (tensor<f32>) -> tensor<f32>
    %each = aten.expand(%one, size = [8]) : (tensor<f32>) -> tensor<8xf32, #aten.strides<0>>
    %back = aten.masked_fill.Scalar(%each, %ignored, value = 0.0) : (tensor<8xf32, #aten.strides<0>>, tensor<8xi1>) -> tensor<8xf32>
    %negated = aten.neg(%back) : (tensor<8xf32>) -> tensor<8xf32>
    %column = aten.unsqueeze(%negated, dim = 1) : (tensor<8xf32>) -> tensor<8x1xf32>
    %wide = aten.expand(%column, size = [8, 16]) : (tensor<8x1xf32>) -> tensor<8x16xf32, #aten.strides<1, 0>>
    %g = aten.nll_loss_backward(%one, %p, %labels, none, %n#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
    %both = aten.add.Tensor(%g, %wide) : (tensor<8x16xf32>, tensor<8x16xf32, #aten.strides<1, 0>>) -> tensor<8x16xf32>
    %d = aten._log_softmax_backward_data(%both, %p, dim = 1, input_dtype = f32) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %d3 = aten.view(%d, size = [2, 4, 16]) : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %f3 = aten.div.Scalar(%d3, other = 3.0) : (tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %f = aten.view(%f3, size = [8, 16]) : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %ft = aten.t(%f) : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<1, 16>>
    %dw = aten.mm(%ft, %h) : (tensor<16x8xf32, #aten.strides<1, 16>>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %db1 = aten.sum.dim_IntList(%f, dim = [0], keepdim = true) : (tensor<8x16xf32>) -> tensor<1x16xf32>
    %db = aten.view(%db1, size = [16]) : (tensor<1x16xf32>) -> tensor<16xf32>
    return %loss, %dw, %db : tensor<f32>, tensor<16x4xf32>, tensor<16xf32>
  }
}

// -----

// Logits in bf16, a loss in f32, a weight whose gradient is reduced in f32: its
// parts are added up in f32. A tied weight's sum keeps the type of what it is
// added to.

module {
  // CHECK-LABEL: func.func @"train/step"
  // CHECK:       %[[DW0:.+]] = aten.mm({{.+}} -> tensor<16x4xbf16>
  // CHECK:       %[[SUM0:.+]] = aten._to_copy(%[[DW0]], dtype = f32)
  // CHECK:       %[[DW1:.+]] = aten.mm({{.+}} -> tensor<16x4xbf16>
  // CHECK:       %[[SUM:.+]] = aten.add.Tensor(%[[SUM0]], %[[DW1]]) : (tensor<16x4xf32>, tensor<16x4xbf16>) -> tensor<16x4xf32>
  // CHECK:       return %{{.+}}, %[[SUM]] :
  fsdp.state parameter @w : tensor<16x4xf32>
  func.func @"train/step"(%w: tensor<16x4xf32> {fsdp.state = @w}, %h: tensor<8x4xbf16> {fsdp.input = "x"}, %labels: tensor<8xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x4xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    %low = aten._to_copy(%w, dtype = bf16) : (tensor<16x4xf32>) -> tensor<16x4xbf16>
    %t = aten.t(%low) : (tensor<16x4xbf16>) -> tensor<4x16xbf16, #aten.strides<1, 4>>
    %l = aten.mm(%h, %t) : (tensor<8x4xbf16>, tensor<4x16xbf16, #aten.strides<1, 4>>) -> tensor<8x16xbf16>
    %rows = aten._to_copy(%l, dtype = f32) : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %p = aten._log_softmax(%rows, dim = 1, half_to_float = false) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %labels, none, reduction = 1, ignore_index = -100) : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.ones_like(%n#0, memory_format = "preserve") : (tensor<f32>) -> tensor<f32>
    %g = aten.nll_loss_backward(%one, %p, %labels, none, %n#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
    %d = aten._log_softmax_backward_data(%g, %p, dim = 1, input_dtype = f32) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %dl = aten._to_copy(%d, dtype = bf16) : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %dt = aten.t(%dl) : (tensor<8x16xbf16>) -> tensor<16x8xbf16, #aten.strides<1, 16>>
    %dw = aten.mm(%dt, %h) : (tensor<16x8xbf16, #aten.strides<1, 16>>, tensor<8x4xbf16>) -> tensor<16x4xbf16>
    %grad = aten._to_copy(%dw, dtype = f32) : (tensor<16x4xbf16>) -> tensor<16x4xf32>
    return %n#0, %grad : tensor<f32>, tensor<16x4xf32>
  }
}

// -----

// A shift of the logits leaves the last row of each sequence out. The layer
// computes the others alone, and its input has zeros there as gradient.

module {
  // CHECK-LABEL: func.func @"train/step"
  // CHECK:       %[[X3:.+]] = aten.view(%[[X:.+]], size = [2, 4, 4])
  // CHECK:       %[[XS:.+]] = aten.slice.Tensor(%[[X3]], dim = 1, start = 0, end = 3)
  // CHECK:       %[[XC:.+]] = aten.clone(%[[XS]], memory_format = "contiguous")
  // CHECK:       %[[XK:.+]] = aten.view(%[[XC]], size = [6, 4])
  // CHECK:       %[[X0:.+]] = aten.slice.Tensor(%[[XK]], start = 0, end = 3)
  // CHECK:       %[[L0:.+]] = aten.mm(%[[X0]], {{.+}} -> tensor<3x16xf32>
  // CHECK:       aten._log_softmax(%[[L0]]
  // CHECK:       %[[PACK:.+]] = fsdp.pack({{.+}} -> tensor<24xf32>
  // CHECK:       %[[K3:.+]] = aten.view(%[[PACK]], size = [2, 3, 4])
  // CHECK:       %[[A3:.+]] = aten.slice_backward(%[[K3]], input_sizes = [2, 4, 4], dim = 1, start = 0, end = 3, step = 1)
  // CHECK:       aten.view(%[[A3]], size = [8, 4])
  // CHECK-NOT:   x16xf32>{{$}}
  // CHECK:       return
  fsdp.state parameter @w : tensor<16x4xf32>
  fsdp.state parameter @v : tensor<4x4xf32>
  func.func @"train/step"(%w: tensor<16x4xf32> {fsdp.state = @w}, %v: tensor<4x4xf32> {fsdp.state = @v}, %x: tensor<8x4xf32> {fsdp.input = "x"}, %labels: tensor<6xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<16x4xf32> {fsdp.gradient = @w}, tensor<4x4xf32> {fsdp.gradient = @v}) attributes {fsdp.captured} {
    %h = aten.mm(%x, %v) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %t = aten.t(%w) : (tensor<16x4xf32>) -> tensor<4x16xf32, #aten.strides<1, 4>>
    %l = aten.mm(%h, %t) : (tensor<8x4xf32>, tensor<4x16xf32, #aten.strides<1, 4>>) -> tensor<8x16xf32>
    %l3 = aten.view(%l, size = [2, 4, 16]) : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %kept = aten.slice.Tensor(%l3, dim = 1, start = 0, end = -1) : (tensor<2x4x16xf32>) -> tensor<2x3x16xf32, #aten.strides<64, 16, 1>>
    %dense = aten.clone(%kept, memory_format = "contiguous") : (tensor<2x3x16xf32, #aten.strides<64, 16, 1>>) -> tensor<2x3x16xf32>
    %rows = aten.view(%dense, size = [6, 16]) : (tensor<2x3x16xf32>) -> tensor<6x16xf32>
    %p = aten._log_softmax(%rows, dim = 1, half_to_float = false) : (tensor<6x16xf32>) -> tensor<6x16xf32>
    %n:2 = aten.nll_loss_forward(%p, %labels, none, reduction = 1, ignore_index = -100) : (tensor<6x16xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.ones_like(%n#0, memory_format = "preserve") : (tensor<f32>) -> tensor<f32>
    %g = aten.nll_loss_backward(%one, %p, %labels, none, %n#1, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<6x16xf32>, tensor<6xi64>, tensor<f32>) -> tensor<6x16xf32>
    %d = aten._log_softmax_backward_data(%g, %p, dim = 1, input_dtype = f32) : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>
    %d3 = aten.view(%d, size = [2, 3, 16]) : (tensor<6x16xf32>) -> tensor<2x3x16xf32>
    %all = aten.slice_backward(%d3, input_sizes = [2, 4, 16], dim = 1, start = 0, end = -1, step = 1) : (tensor<2x3x16xf32>) -> tensor<2x4x16xf32>
    %flat = aten.view(%all, size = [8, 16]) : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %dt = aten.t(%flat) : (tensor<8x16xf32>) -> tensor<16x8xf32, #aten.strides<1, 16>>
    %dw = aten.mm(%dt, %h) : (tensor<16x8xf32, #aten.strides<1, 16>>, tensor<8x4xf32>) -> tensor<16x4xf32>
    %dh = aten.mm(%flat, %w) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %xt = aten.t(%x) : (tensor<8x4xf32>) -> tensor<4x8xf32, #aten.strides<1, 4>>
    %dv = aten.mm(%xt, %dh) : (tensor<4x8xf32, #aten.strides<1, 4>>, tensor<8x4xf32>) -> tensor<4x4xf32>
    return %n#0, %dw, %dv : tensor<f32>, tensor<16x4xf32>, tensor<4x4xf32>
  }
}
