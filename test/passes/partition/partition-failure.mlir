// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, plan = [#fsdp.parallel_rule<modules = ["upp"], style = colwise>]>}' --fsdp-snapshot-reference --fsdp-partition 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: expected modules with parameters whose paths match 'upp' of the tensor-parallel plan, found none
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, plan = [#fsdp.parallel_rule<modules = ["norm"], style = colwise>]>}' --fsdp-snapshot-reference --fsdp-partition 2>&1 | FileCheck %s --check-prefix=STYLE
// STYLE: expects a parameter of a linear layer or an embedding for the style 'colwise', found one of LayerNorm with 1 dims; leave the module out of the tensor-parallel plan
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 5>, parallel<tp = 5, plan = [#fsdp.parallel_rule<modules = ["up"], style = colwise>]>}' --fsdp-snapshot-reference --fsdp-partition 2>&1 | FileCheck %s --check-prefix=UNEVEN
// UNEVEN: has 12 rows in dim 0, which 'tp: 5' does not divide; 2, 3, 4, 6, 12 would work
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 4>, parallel<tp = 4, plan = [#fsdp.parallel_rule<modules = ["up"], style = colwise>]>}' --fsdp-snapshot-reference --fsdp-partition 2>&1 | FileCheck %s --check-prefix=HEADS
// HEADS: 'aten.view' op has 3 heads, or groups of features, of what is split over 4 ranks of 'tp', which do not divide them; 3 would work
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, plan = [#fsdp.parallel_rule<modules = ["embed"], style = rowwise>, #fsdp.parallel_rule<modules = ["head"], style = rowwise>]>}' --fsdp-snapshot-reference --fsdp-partition 2>&1 | FileCheck %s --check-prefix=SHARED
// SHARED: is shared by 'embed' and 'head', whose styles split it otherwise; expected styles that split the same dim (an embedding's 'rowwise' and a linear layer's 'colwise' do)
module {
  fsdp.module "" class "Model"
  fsdp.module "embed" class "Embedding"
  fsdp.module "head" class "Linear"
  fsdp.module "up" class "Linear"
  fsdp.module "norm" class "LayerNorm"
  fsdp.state parameter @up.weight : tensor<12x6xf32>
  fsdp.state parameter @norm.weight : tensor<6xf32>
  fsdp.state parameter @embed.weight : tensor<8x6xf32> names ["embed.weight", "head.weight"]
  func.func @"train/step"(%wu: tensor<12x6xf32> {fsdp.state = @up.weight}, %n: tensor<6xf32> {fsdp.state = @norm.weight},
                          %x: tensor<4x6xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %s = aten.mul.Tensor(%x, %n) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    %tu = aten.t(%wu) : (tensor<12x6xf32>) -> tensor<6x12xf32, #aten.strides<1, 6>>
    %h = aten.mm(%s, %tu) : (tensor<4x6xf32>, tensor<6x12xf32, #aten.strides<1, 6>>) -> tensor<4x12xf32>
    %v = aten.view(%h, size = [4, 3, 4]) : (tensor<4x12xf32>) -> tensor<4x3x4xf32>
    %l = aten.sum(%v) : (tensor<4x3x4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
