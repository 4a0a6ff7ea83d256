// A matrix in blocks of codes is split as it would be in numbers. Every rank has all codes: where rows of a part are whole blocks it reads the codes of these
// alone, and else takes its part of the numbers.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, plan = [#fsdp.parallel_rule<modules = ["up"], style = colwise>, #fsdp.parallel_rule<modules = ["down"], style = rowwise>]>}' --fsdp-snapshot-reference --fsdp-partition --fsdp-verify-placed -o %t
// RUN: FileCheck %s < %t
// RUN: fsdp-opt %t --fsdp-verify-equivalent -o /dev/null
// Each reader takes a part of its own.
// RUN: fsdp-opt %t --fsdp-dequantize-at-readers | FileCheck %s --check-prefix=READERS
//
// Rows that are no whole blocks.
// RUN: sed -E 's/tensor<12x36xui8>/tensor<11x36xui8>/g; s/24x32/22x32/g; s/32x24/32x22/g; s/strides<1, 24>/strides<1, 22>/; s/4x24x/4x22x/g' %s | fsdp-opt - --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, plan = [#fsdp.parallel_rule<modules = ["up"], style = colwise>, #fsdp.parallel_rule<modules = ["down"], style = rowwise>]>}' --fsdp-partition --fsdp-verify-placed | FileCheck %s --check-prefix=ROWS
// ROWS:     %[[W:.+]] = fsdp.dequantize %{{.+}} nf4 : tensor<11x36xui8> -> tensor<22x32xf32>
// ROWS:     %[[P:.+]] = fsdp.shard %[[W]] dim 0 over #tp for step : tensor<22x32xf32> -> tensor<11x32xf32>
// ROWS:     aten.t(%[[P]])

// CHECK-LABEL: func.func @"infer/step"
// CHECK-SAME:  (%[[U:[^:]+]]: tensor<12x36xui8> {{[^)]*}}, %[[D:[^:]+]]: tensor<12x36xui8> {{[^)]*}}, %[[X:[^:]+]]: tensor<4x32xf32>
// CHECK:       %[[C:.+]] = fsdp.shard %[[U]] dim 0 over #tp for step : tensor<12x36xui8> -> tensor<6x36xui8>
// CHECK-NEXT:  %[[WU:.+]] = fsdp.dequantize %[[C]] nf4 {{.*}}#fsdp.placed<shard over #tp>{{.*}} : tensor<6x36xui8> -> tensor<12x32xf32>
// CHECK:       %[[WD:.+]] = fsdp.dequantize %[[D]] nf4 : tensor<12x36xui8> -> tensor<32x24xf32>
// CHECK-NEXT:  %[[PD:.+]] = fsdp.shard %[[WD]] dim 1 over #tp for step : tensor<32x24xf32> -> tensor<32x12xf32>
// CHECK:       %[[P:.+]] = aten.mm({{.*}}#fsdp.placed<partial over #tp>{{.*}} -> tensor<4x32xf32>
// CHECK:       %[[Y:.+]] = fsdp.all_reduce sum %[[P]] over #tp for step
// CHECK:       return %[[Y]]

// READERS-LABEL: func.func @"infer/step"
// READERS-SAME:  (%[[U:[^:]+]]: tensor<12x36xui8>
// READERS-COUNT-2: fsdp.shard %[[U]] dim 0
// READERS-NOT:     fsdp.shard %[[U]]
module {
  fsdp.module "up" class "Linear"
  fsdp.module "down" class "Linear"
  fsdp.state frozen @up.weight : tensor<12x36xui8> quantized <nf4 of tensor<24x32xf32>>
  fsdp.state frozen @down.weight : tensor<12x36xui8> quantized <nf4 of tensor<32x24xf32>>
  func.func @"infer/step"(%cu: tensor<12x36xui8> {fsdp.state = @up.weight}, %cd: tensor<12x36xui8> {fsdp.state = @down.weight}, %x: tensor<4x32xf32> {fsdp.input = "x"})
      -> (tensor<4x32xf32> {fsdp.output = "y"}, tensor<4x24xf32> {fsdp.output = "z"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %wu = fsdp.dequantize %cu nf4 : tensor<12x36xui8> -> tensor<24x32xf32>
    %tu = aten.t(%wu) : (tensor<24x32xf32>) -> tensor<32x24xf32, #aten.strides<1, 32>>
    %h = aten.mm(%x, %tu) : (tensor<4x32xf32>, tensor<32x24xf32, #aten.strides<1, 32>>) -> tensor<4x24xf32>
    %wd = fsdp.dequantize %cd nf4 : tensor<12x36xui8> -> tensor<32x24xf32>
    %td = aten.t(%wd) : (tensor<32x24xf32>) -> tensor<24x32xf32, #aten.strides<1, 24>>
    %y = aten.mm(%h, %td) : (tensor<4x24xf32>, tensor<24x32xf32, #aten.strides<1, 24>>) -> tensor<4x32xf32>
    %z = aten.mm(%x, %tu) : (tensor<4x32xf32>, tensor<32x24xf32, #aten.strides<1, 32>>) -> tensor<4x24xf32>
    return %y, %z : tensor<4x32xf32>, tensor<4x24xf32>
  }
}
