// The scores are those of a matrix that nothing else but a look-up reads and whose rows two ranks divide: cross-entropy is written out, and its gradient. Then ranks have
// scores of parts of the classes, and exchange three numbers a token.
//
// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, automatic = true>}' --fsdp-spell-losses -o %t
// RUN: FileCheck %s < %t
// RUN: fsdp-opt %t --split-input-file --fsdp-snapshot-reference --fsdp-partition --fsdp-verify-placed --fsdp-verify-equivalent -o - | FileCheck %s --check-prefix=PARTS
//
// A look-up that is not told whose rows it has would look up others.
//
// RUN: fsdp-opt %t --split-input-file --fsdp-snapshot-reference --fsdp-partition -o - | sed 's/, fsdp.rows = [^}]*}/}/' > %t.lost
// RUN: not fsdp-opt %t.lost --split-input-file --fsdp-verify-placed -o - 2>&1 | FileCheck %s --check-prefix=LOST
// LOST: 'aten.embedding' op expects fsdp.rows = #fsdp.placed<shard over <"tp", 2>>, which says whose rows its matrix has
//
// Not where every rank has all classes.
//
// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={shards<world = 2>, parallel<tp = 1, automatic = true>}' --fsdp-spell-losses -o - | FileCheck %s --check-prefix=FUSED
// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={shards<world = 3>, parallel<tp = 3, automatic = true>}' --fsdp-spell-losses -o - | FileCheck %s --check-prefix=FUSED
// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2>}' --fsdp-spell-losses -o - | FileCheck %s --check-prefix=FUSED
// RUN: fsdp-opt %s --split-input-file --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, automatic = true, plan = [#fsdp.parallel_rule<modules = ["head"], style = replicate>]>}' --fsdp-spell-losses -o - | FileCheck %s --check-prefix=FUSED
// FUSED-COUNT-2: aten._log_softmax(
// FUSED-NOT: fsdp.classes

// CHECK-LABEL: module @untied
// CHECK:      %[[S:.+]] = aten.mm(
// CHECK-NEXT: %[[V:.+]] = aten.view(%[[S]], size = [4, 2, 4])
// CHECK-NEXT: %[[A:.+]] = aten.amax(%[[V]], dim = [2])
// CHECK-NEXT: %[[M:.+]] = aten.amax(%[[A]], dim = [1], keepdim = true) {fsdp.classes}
// CHECK-NEXT: %[[C:.+]] = aten.sub.Tensor(%[[S]], %[[M]])
// CHECK-NEXT: %[[E:.+]] = aten.exp(%[[C]])
// CHECK-NEXT: %[[Z:.+]] = aten.sum.dim_IntList(%[[E]], dim = [1], keepdim = true) {fsdp.classes}
// CHECK-NOT:  log_softmax
// CHECK-NOT:  nll_loss
// A label of no class is refused, over zeros that take no memory.
// CHECK:      %[[N:.+]] = aten.expand(%{{.+}}, size = [4, 8]) : (tensor<f32>) -> tensor<4x8xf32, #aten.strides<0, 0>>
// CHECK-NEXT: %[[G:.+]]:2 = aten.nll_loss_forward(%[[N]], %{{.+}}, reduction = 0, ignore_index = -100)
// CHECK-NEXT: %[[A:.+]] = aten.add.Tensor(%{{.+}}, %[[G]]#0)
// CHECK-NEXT: aten.sum(%[[A]])
// CHECK-NOT:  log_softmax
// CHECK-NOT:  nll_loss
// CHECK:      aten.div.Tensor(%[[E]], %[[Z]])

// PARTS-LABEL: module @untied
// PARTS:      fsdp.state parameter @head.weight : tensor<4x6xf32> split <dim 0 over #tp>
// PARTS:      %[[S:.+]] = aten.mm({{.*}} -> tensor<4x4xf32>
// PARTS:      fsdp.all_gather {{.*}} dim 1 over #tp for step : tensor<4x1xf32> -> tensor<4x2xf32>
// PARTS:      aten.eq.Tensor({{.*}} -> tensor<4x4xi1>
// PARTS:      fsdp.all_reduce sum {{.*}} over #tp for step : tensor<4x1xf32>
// PARTS:      fsdp.all_reduce sum {{.*}} over #tp for step : tensor<4xf32>
// PARTS-NOT:  fsdp.all
// PARTS:      return {{.*}} : tensor<f32>, tensor<4x6xf32>
module @untied {
  fsdp.module "" class "Model"
  fsdp.module "head" class "Linear"
  fsdp.state parameter @head.weight : tensor<8x6xf32>
  func.func @"train/step"(%w: tensor<8x6xf32> {fsdp.state = @head.weight}, %x: tensor<4x6xf32> {fsdp.input = "x"}, %y: tensor<4xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<8x6xf32> {fsdp.gradient = @head.weight}) attributes {fsdp.captured} {
    %t = aten.t(%w) : (tensor<8x6xf32>) -> tensor<6x8xf32, #aten.strides<1, 6>>
    %s = aten.mm(%x, %t) : (tensor<4x6xf32>, tensor<6x8xf32, #aten.strides<1, 6>>) -> tensor<4x8xf32>
    %p = aten._log_softmax(%s, dim = 1, half_to_float = false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %l, %n = aten.nll_loss_forward(%p, %y, none, reduction = 1, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
    %one = aten.ones_like(%l) : (tensor<f32>) -> tensor<f32>
    %gp = aten.nll_loss_backward(%one, %p, %y, none, %n, reduction = 1, ignore_index = -100) : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x8xf32>
    %gs = aten._log_softmax_backward_data(%gp, %p, dim = 1, input_dtype = f32) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %gt = aten.t(%gs) : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<1, 8>>
    %gw = aten.mm(%gt, %x) : (tensor<8x4xf32, #aten.strides<1, 8>>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %l, %gw : tensor<f32>, tensor<8x6xf32>
  }
}

// -----

// The matrix is the embedding as well: its rows are looked up in parts, and what they give is added up.

// CHECK-LABEL: module @tied
// CHECK-NOT:  log_softmax
// PARTS-LABEL: module @tied
// PARTS:      fsdp.state parameter @head.weight : tensor<4x6xf32> split <dim 0 over #tp>
// PARTS:      %[[E:.+]] = aten.embedding(%{{.+}}, %{{.+}}) {fsdp.placed = {{\[\[}}#fsdp.placed<partial over #tp>]], fsdp.rows = #fsdp.placed<shard over #tp>} : (tensor<4x6xf32>, tensor<4xi64>) -> tensor<4x6xf32>
// PARTS:      fsdp.all_reduce sum %[[E]] over #tp for step
module @tied {
  fsdp.module "" class "Model"
  fsdp.module "head" class "Linear"
  fsdp.state parameter @head.weight : tensor<8x6xf32>
  func.func @"train/step"(%w: tensor<8x6xf32> {fsdp.state = @head.weight}, %x: tensor<4xi64> {fsdp.input = "x"}, %y: tensor<4xi64> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %e = aten.embedding(%w, %x) : (tensor<8x6xf32>, tensor<4xi64>) -> tensor<4x6xf32>
    %t = aten.t(%w) : (tensor<8x6xf32>) -> tensor<6x8xf32, #aten.strides<1, 6>>
    %s = aten.mm(%e, %t) : (tensor<4x6xf32>, tensor<6x8xf32, #aten.strides<1, 6>>) -> tensor<4x8xf32>
    %p = aten._log_softmax(%s, dim = 1, half_to_float = false) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %l, %n = aten.nll_loss_forward(%p, %y, none, reduction = 1, ignore_index = -100) : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
    return %l : tensor<f32>
  }
}
