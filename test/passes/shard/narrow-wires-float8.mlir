// RUN: fsdp-opt %s --fsdp-annotate='with={step<reduce_wire = "float8">}' --fsdp-narrow-wires --fsdp-lower-encodings -o - | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={step<reduce_wire = "float8">}' --fsdp-narrow-wires --fsdp-bucket-collectives -o - | FileCheck %s --check-prefix=BUCKETS
// RUN: fsdp-opt %s --fsdp-annotate='with={step<reduce_wire = "float8">, buckets<rules = [#fsdp.rule<buckets = ["ro*"], reduce_wire = "float32">]>}' --fsdp-narrow-wires -o - | FileCheck %s --check-prefix=PLAIN
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["root"], reduce_wire = "bfloat16">]>}' --fsdp-narrow-wires -o - | FileCheck %s --check-prefix=HALF
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["layers.*"], reduce_wire = "float8">]>}' --fsdp-narrow-wires 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["root"], reduce_wire = "float16">]>}' 2>&1 | FileCheck %s --check-prefix=TYPE

// PLAIN-NOT: f8E4M3FN
// HALF-COUNT-2: dtype = bf16) : 
// NONE: expected buckets whose names match 'layers.*', found none
// TYPE: expected 'bfloat16', 'float8' or 'float32' to send gradients in, found "float16"

// Gradients travel as e4m3 times a power of two that all ranks agree on, and their sums are divided by it. The members of a bucket stand where the last of them is; what
// reads them comes behind. Nothing is done to what is reduced in bf16.

// CHECK:       fsdp.casts = [{cause = "wire", count = 2 : i64, from = f32, name = "gradient", to = f8E4M3FN}]
// CHECK-LABEL: @"train/step"
// CHECK-NEXT:  %[[G:.+]] = aten.neg(
// CHECK-NEXT:  fsdp.reduce_scatter avg %{{.+}} dim 0 over {{.*}} of @h : tensor<8xbf16> -> tensor<2xbf16>
// CHECK-NEXT:  %[[T:.+]] = aten.t(
// CHECK-NEXT:  %[[N:.+]] = aten.linalg_vector_norm(%[[G]], ord = 0x7FF0000000000000 : f64) : (tensor<8x2xf32>) -> tensor<f32>
// CHECK-NEXT:  %[[C:.+]] = aten.clone(%[[T]],
// CHECK-NEXT:  %[[O:.+]] = aten.linalg_vector_norm(%[[C]]
// CHECK-NEXT:  %[[M:.+]] = fsdp.all_reduce max %[[N]] over {{.*}} for scale : tensor<f32>
// CHECK-NEXT:  fsdp.all_reduce max %[[O]] over {{.*}} for scale : tensor<f32>
// CHECK-NEXT:  %[[D:.+]] = aten.clamp_min(%[[M]], min = {{7.88.+E-31}})
// CHECK-NEXT:  %[[L:.+]] = fsdp.constant dense<4.480000e+02> : tensor<f32>
// CHECK-NEXT:  %[[Q:.+]] = aten.div.Tensor(%[[L]], %[[D]])
// CHECK-NEXT:  %[[E:.+]] = aten.log2(%[[Q]])
// CHECK-NEXT:  %[[F:.+]] = aten.floor(%[[E]])
// CHECK-NEXT:  %[[P:.+]] = aten.exp2(%[[F]])
// CHECK-NEXT:  %[[I:.+]] = aten.reciprocal(%[[P]])
// CHECK-NEXT:  %[[A:.+]] = aten.mul.Tensor(%[[G]], %[[P]])
// CHECK-NEXT:  %[[H:.+]] = aten._to_copy(%[[A]], dtype = f8E4M3FN) : (tensor<8x2xf32>) -> tensor<8x2xf8E4M3FN>
// CHECK-NEXT:  %[[S:.+]] = fsdp.reduce_scatter avg %[[H]] dim 0 over {{.*}} of @w : tensor<8x2xf8E4M3FN> -> tensor<2x2xf32>
// CHECK:       %[[R:.+]] = fsdp.reduce_scatter sum %{{.+}} pre 4.000000e+00 dim 0 over {{.*}} of @t : tensor<2x8xf8E4M3FN> -> tensor<1x8xf32>
// CHECK-NEXT:  %[[U:.+]] = aten.mul.Tensor(%[[S]], %[[I]]) : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
// CHECK-NEXT:  %[[V:.+]] = aten.mul.Tensor(%[[R]], %{{.+}}) : (tensor<1x8xf32>, tensor<f32>) -> tensor<1x8xf32>
// CHECK-NEXT:  fsdp.all_reduce avg %[[U]] over {{.*}} of @w : tensor<2x2xf32>
// CHECK-NEXT:  return %{{.+}}, %[[V]]

// One exchange of both maxima, which waits for no older bucket, and one of the gradients.
// BUCKETS:     fsdp.start all_reduce max "wire/maxima"(%{{.+}}, %{{.+}}) over #shard for scale on replicate
// BUCKETS-NOT: fsdp.start all_reduce max
// BUCKETS:     %[[S:.+]] = fsdp.scale %{{.+}} to f8E4M3FN least {{.+}} power_of_two : tensor<f32>
// BUCKETS-NEXT: fsdp.encode %{{.+}} by %[[S]] : tensor<8x2xf32>, tensor<f32> -> tensor<8x2xf8E4M3FN>
// BUCKETS:     fsdp.start reduce_scatter avg "root"(%{{.+}}) dims [0] over #shard on reduce of [@w]
#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
module {
  fsdp.state parameter @w : tensor<8x2xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @t : tensor<2x8xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @h : tensor<8xbf16> sharded <dim 0 over #shard> bucket "root"
  func.func @"train/step"(%g: tensor<8x2xf32>, %h: tensor<8xbf16>) -> (tensor<2x2xf32>, tensor<1x8xf32>) {
    %n = aten.neg(%g) : (tensor<8x2xf32>) -> tensor<8x2xf32>
    %s = fsdp.reduce_scatter avg %n dim 0 over #shard of @w : tensor<8x2xf32> -> tensor<2x2xf32>
    %r = fsdp.all_reduce avg %s over #replicate of @w : tensor<2x2xf32>
    %v = fsdp.reduce_scatter avg %h dim 0 over #shard of @h : tensor<8xbf16> -> tensor<2xbf16>
    %t = aten.t(%g) : (tensor<8x2xf32>) -> tensor<2x8xf32, #aten.strides<1, 2>>
    %u = fsdp.reduce_scatter sum %t pre 4.0 dim 0 over #shard of @t : tensor<2x8xf32, #aten.strides<1, 2>> -> tensor<1x8xf32>
    return %r, %u : tensor<2x2xf32>, tensor<1x8xf32>
  }
}
