// RUN: fsdp-opt %s --verify-roundtrip | FileCheck %s

// CHECK-DAG: #mesh = #fsdp.mesh<replicate = 2, shard = 4>
// CHECK-DAG: #shard = #fsdp.group<"shard", 4>
// CHECK-DAG: #replicate = #fsdp.group<"replicate", 2 : 4>
#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>

// CHECK: fsdp.mesh = #mesh, fsdp.model = #fsdp.model<"model.pt2", 51234, "9f86d081884c7d65", torch "2.11.0">
// CHECK-SAME: fsdp.weights = [#fsdp.weights_file<"m.safetensors", 578, "0a">]
module @syntax attributes {
  fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 4>,
  fsdp.model = #fsdp.model<"model.pt2", 51234, "9f86d081884c7d65", torch "2.11.0">,
  fsdp.weights = [#fsdp.weights_file<"m.safetensors", 578, "0a">]
} {
  // CHECK: fsdp.module "net.0" class "Linear"
  fsdp.module "net.0" class "Linear"

  // CHECK: fsdp.state parameter @net.0.weight : tensor<13x17xf32> sharded <dim 0 over #shard> names ["net.0.weight", "tied.weight"] bucket "net.0" source <"data/weights/weight_0" at 1472 : 884 crc 2774181210 strides [1, 13]> at 64{{$}}
  fsdp.state parameter @net.0.weight : tensor<13x17xf32>
      sharded <dim 0 over #shard> names ["net.0.weight", "tied.weight"]
      bucket "net.0"
      source <"data/weights/weight_0" at 1472 : 884 crc 2774181210 strides [1, 13]>
      at 64
  // CHECK: fsdp.state frozen @net.0.bias : tensor<13xf32>{{$}}
  fsdp.state frozen @net.0.bias : tensor<13xf32>
  // CHECK: fsdp.state buffer @net.0.cache : tensor<2xf32> volatile
  fsdp.state buffer @net.0.cache : tensor<2xf32> volatile
  // CHECK: fsdp.state constant @"constant/0" : tensor<i64> init dense<3> : tensor<i64>
  fsdp.state constant @"constant/0" : tensor<i64> init dense<3> : tensor<i64>
  // CHECK: fsdp.state optimizer @"net.0.weight/exp_avg" of @net.0.weight : tensor<13x17xf32>
  fsdp.state optimizer @"net.0.weight/exp_avg" of @net.0.weight : tensor<13x17xf32>
  // CHECK: fsdp.state gradient @"net.0.weight/gradient" of @net.0.weight : tensor<13x17xf32>
  fsdp.state gradient @"net.0.weight/gradient" of @net.0.weight : tensor<13x17xf32>
  // CHECK: fsdp.state gathered @"net.0.weight/gathered" of @net.0.weight : tensor<13x17xf32>
  fsdp.state gathered @"net.0.weight/gathered" of @net.0.weight : tensor<13x17xf32>
  // CHECK: fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.000000e-03 : f32
  fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.0e-3 : f32
  // CHECK: fsdp.state frozen @net.1.weight : tensor<13x17xf32> weight <"net.1.weight", "also" in 0 at 136 : 442 bf16>{{$}}
  fsdp.state frozen @net.1.weight : tensor<13x17xf32> weight <"net.1.weight", "also" in 0 at 136 : 442 bf16>
  // CHECK: fsdp.state frozen @net.2.weight : tensor<13x17xf32> weight <"net.2.weight">{{$}}
  fsdp.state frozen @net.2.weight : tensor<13x17xf32> weight <"net.2.weight">
  // CHECK: fsdp.state frozen @net.3.weight : tensor<13x17xf32> init #fsdp.init<normal(0.000000e+00, 2.000000e-02)>{{$}}
  fsdp.state frozen @net.3.weight : tensor<13x17xf32> init #fsdp.init<normal(0.0, 0.02)>
  // CHECK: fsdp.state frozen @net.4.weight : tensor<13x17xf32> init #fsdp.init<eye>{{$}}
  fsdp.state frozen @net.4.weight : tensor<13x17xf32> init #fsdp.init<eye>
  // CHECK: fsdp.state parameter @net.7.weight : tensor<5x3xf32> gradient <local, reduce bf16>{{$}}
  fsdp.state parameter @net.7.weight : tensor<5x3xf32> gradient <local, reduce bf16>
  // CHECK: fsdp.state frozen @net.6.weight : tensor<5x3xf32> sharded <dim 0 over #shard> bucket "net.6" copied{{$}}
  fsdp.state frozen @net.6.weight : tensor<5x3xf32> sharded <dim 0 over #shard> bucket "net.6" copied
  // CHECK: fsdp.state frozen @"net.5/flat" : tensor<64xf32> flat <over #shard>{{$}}
  fsdp.state frozen @"net.5/flat" : tensor<64xf32> flat <over #shard>
  // CHECK: fsdp.state frozen @net.5.weight : tensor<5x3xf32> part <@"net.5/flat" at 0>{{$}}
  fsdp.state frozen @net.5.weight : tensor<5x3xf32> part <@"net.5/flat" at 0>
  // CHECK: fsdp.state frozen @net.5.bias : tensor<5xf32> part <@"net.5/flat" at 32>{{$}}
  fsdp.state frozen @net.5.bias : tensor<5xf32> part <@"net.5/flat" at 32>
  // CHECK: fsdp.state optimizer @"net.1.weight/exp_avg" : tensor<5x3xf32> memory host{{$}}
  fsdp.state optimizer @"net.1.weight/exp_avg" : tensor<5x3xf32> memory host
  // CHECK: fsdp.state random @random : tensor<2xi64>
  fsdp.state random @random : tensor<2xi64>

  // CHECK-LABEL: func.func @logical
  func.func @logical(%w: tensor<4x17xf32>, %g: tensor<13x17xf32>, %b: tensor<13x17xbf16>, %even: tensor<8x17xf32>) {
    // CHECK: fsdp.constant wrapped dense<5.000000e-01> : tensor<f64>
    %c = fsdp.constant wrapped dense<0.5> : tensor<f64>
    // CHECK: fsdp.constant dense<[1, 2]> : tensor<2xi64>
    %d = fsdp.constant dense<[1, 2]> : tensor<2xi64>
    // CHECK: fsdp.all_gather %{{.*}} dim 0 over #shard : tensor<4x17xf32> -> tensor<13x17xf32>
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<4x17xf32> -> tensor<13x17xf32>
    // CHECK: fsdp.shard %{{.*}} dim 0 over #shard : tensor<13x17xf32> -> tensor<4x17xf32>
    %s = fsdp.shard %g dim 0 over #shard : tensor<13x17xf32> -> tensor<4x17xf32>
    // CHECK: fsdp.all_gather %{{.*}} dim 0 in <blocks = 2, balanced = true> over #shard : tensor<8x17xf32> -> tensor<32x17xf32>
    %blocks = fsdp.all_gather %even dim 0 in #fsdp.parts<blocks = 2, balanced = true> over #shard : tensor<8x17xf32> -> tensor<32x17xf32>
    // CHECK: fsdp.select_rows %{{.*}} dim 0 from [0, 5, 1, 9] over #shard : tensor<13x17xf32> -> tensor<4x17xf32>
    %rows = fsdp.select_rows %g dim 0 from [0, 5, 1, 9] over #shard : tensor<13x17xf32> -> tensor<4x17xf32>
    // CHECK: fsdp.reduce_scatter sum %{{.*}} pre 2.000000e+00 post 1.500000e+00 dim 0 over #shard : tensor<13x17xf32> -> tensor<4x17xf32>
    %divided = fsdp.reduce_scatter sum %g pre 2.0 post 1.5 dim 0 over #shard : tensor<13x17xf32> -> tensor<4x17xf32>
    // CHECK: fsdp.all_reduce sum %{{.*}} post 3.000000e+00 over #shard for metric : tensor<13x17xf32>
    %summed = fsdp.all_reduce sum %g post 3.0 over #shard for metric : tensor<13x17xf32>
    // CHECK: fsdp.pack(%{{.*}}, %{{.*}}) at [0, 224] of @"net.5/flat" : tensor<13x17xf32>, tensor<4x17xf32> -> tensor<512xf32>
    %packed = fsdp.pack(%g, %w) at [0, 224] of @"net.5/flat" : tensor<13x17xf32>, tensor<4x17xf32> -> tensor<512xf32>
    // CHECK: fsdp.unpack %{{.*}} at 224 : tensor<512xf32> -> tensor<4x17xf32>
    %unpacked = fsdp.unpack %packed at 224 : tensor<512xf32> -> tensor<4x17xf32>
    // CHECK: fsdp.reduce_scatter avg %{{.*}} dim 0 over #shard of @net.0.weight : tensor<13x17xf32> -> tensor<4x17xf32>
    %r = fsdp.reduce_scatter avg %g dim 0 over #shard of @net.0.weight : tensor<13x17xf32> -> tensor<4x17xf32>
    // CHECK: fsdp.all_reduce sum %{{.*}} over #replicate of @net.0.weight : tensor<4x17xf32>
    %a = fsdp.all_reduce sum %r over #replicate of @net.0.weight : tensor<4x17xf32>
    // CHECK: fsdp.copy %{{.*}} to device of @net.0.weight : tensor<4x17xf32>
    %up = fsdp.copy %w to device of @net.0.weight : tensor<4x17xf32>
    // CHECK: fsdp.copy %{{.*}} to host : tensor<4x17xf32>
    %down = fsdp.copy %up to host : tensor<4x17xf32>
    // CHECK: fsdp.replay %{{.*}} : tensor<4x17xf32>
    %p = fsdp.replay %w : tensor<4x17xf32>
    // CHECK: fsdp.accumulate %{{.*}} into %{{.*}} of @net.0.weight : tensor<13x17xbf16>, tensor<13x17xf32>
    %n = fsdp.accumulate %b into %g of @net.0.weight : tensor<13x17xbf16>, tensor<13x17xf32>
    // CHECK: fsdp.accumulate %{{.*}} into %{{.*}} divide 3 : tensor<13x17xbf16>, tensor<13x17xf32>
    %mean = fsdp.accumulate %b into %g divide 3 : tensor<13x17xbf16>, tensor<13x17xf32>
    return
  }

  // CHECK-LABEL: func.func @stored
  func.func @stored(%w: tensor<35x150xbf16>, %c: tensor<35x150xui8>, %s: tensor<21xf32>, %own: tensor<42xf32>, %n: tensor<f32>) {
    // CHECK: fsdp.update adamw params(%[[W:.*]]) grads(%[[W]]) exp_avgs(%[[C:.*]]) exp_avg_sqs(%[[C]]) scales(%[[S:.*]], %[[S]]) maxima %[[M:.*]] step %{{.*}} lr %{{.*}} betas(9.000000e-01, 5.000000e-01) eps 1.000000e-08 weight_decay 1.000000e-01 rounding 3 : tensor<35x150xbf16> moments ui8 scales tensor<21xf32>, tensor<21xf32> maxima tensor<42xf32>
    %a:5 = fsdp.update adamw params(%w) grads(%w) exp_avgs(%c) exp_avg_sqs(%c) scales(%s, %s) maxima %own
        step %n lr %n betas(0.9, 0.5) eps 1.0e-08 weight_decay 0.1 rounding 3
        : tensor<35x150xbf16> moments ui8 scales tensor<21xf32>, tensor<21xf32> maxima tensor<42xf32>
    // CHECK: fsdp.update sgd params(%{{.*}}) grads(%{{.*}}) momentum_buffers() step %{{.*}} lr %{{.*}} momentum 0.000000e+00 weight_decay 0.000000e+00 rounding 3 : tensor<35x150xbf16>{{$}}
    %b = fsdp.update sgd params(%w) grads(%w) momentum_buffers() step %n lr %n
        momentum 0.0 weight_decay 0.0 rounding 3 : tensor<35x150xbf16>
    // CHECK: fsdp.update sgd params(%{{.*}}) {{.*}} scales(%{{.*}}) lr {{.*}} : tensor<35x150xbf16> moments ui8 scales tensor<21xf32>{{$}}
    %d:3 = fsdp.update sgd params(%w) grads(%w) momentum_buffers(%c) scales(%s) lr %n
        momentum 0.9 weight_decay 0.0 : tensor<35x150xbf16> moments ui8 scales tensor<21xf32>
    // CHECK: fsdp.block_maxima sgd params(%{{.*}}) grads(%{{.*}}) momentum_buffers(%{{.*}}) scales(%{{.*}}) momentum 5.000000e-01 weight_decay 0.000000e+00 :
    %e = fsdp.block_maxima sgd params(%w) grads(%w) momentum_buffers(%c) scales(%s)
        momentum 0.5 weight_decay 0.0
        : (tensor<35x150xbf16>, tensor<35x150xbf16>, tensor<35x150xui8>, tensor<21xf32>) -> tensor<21xf32>
    return
  }

  // CHECK-LABEL: func.func @optimizers
  func.func @optimizers(%w: tensor<4x17xf32>, %b: tensor<4xf32>, %step: tensor<f32>, %lr: tensor<f32>) {
    // CHECK: fsdp.update adamw params(%[[W:.*]], %[[B:.*]]) grads(%[[W]], %[[B]]) exp_avgs(%[[W]], %[[B]]) exp_avg_sqs(%[[W]], %[[B]]) step %{{.*}} lr %[[LR:.*]] grad_scale %[[LR]] found_inf %[[LR]] betas(9.000000e-01, 5.000000e-01) eps 1.000000e-08 weight_decay 1.000000e-01 : tensor<4x17xf32>, tensor<4xf32>
    %n:6 = fsdp.update adamw params(%w, %b) grads(%w, %b) exp_avgs(%w, %b) exp_avg_sqs(%w, %b)
        step %step lr %lr grad_scale %lr found_inf %lr betas(9.0e-01, 0.5)
        eps 1.0e-08 weight_decay 0.1 : tensor<4x17xf32>, tensor<4xf32>
    // CHECK: fsdp.update adam params(%{{.*}}) grads(%{{.*}}) exp_avgs(%{{.*}}) exp_avg_sqs(%{{.*}}) step %{{.*}} lr %{{.*}} betas
    %m:3 = fsdp.update adam params(%w) grads(%w) exp_avgs(%w) exp_avg_sqs(%w)
        step %step lr %lr betas(0.9, 0.999) eps 1.0e-08 weight_decay 0.0 : tensor<4x17xf32>
    // CHECK: fsdp.update sgd params(%{{.*}}) grads(%{{.*}}) momentum_buffers(%{{.*}}) lr %{{.*}} momentum 9.000000e-01 weight_decay 0.000000e+00 nesterov : tensor<4x17xf32>
    %o:2 = fsdp.update sgd params(%w) grads(%w) momentum_buffers(%w) lr %lr
        momentum 0.9 weight_decay 0.0 nesterov : tensor<4x17xf32>
    // CHECK: fsdp.update sgd params(%{{.*}}) grads(%{{.*}}) momentum_buffers() lr %{{.*}} grad_scale %{{.*}} momentum 0.000000e+00 weight_decay 0.000000e+00 : tensor<4x17xf32>
    %q = fsdp.update sgd params(%w) grads(%w) momentum_buffers() lr %lr grad_scale %lr
        momentum 0.0 weight_decay 0.0 : tensor<4x17xf32>
    return
  }

  // CHECK-LABEL: func.func @schedule
  func.func @schedule(%w: tensor<4x17xf32>, %b: tensor<4xf32>, %g: tensor<13x17xf32>, %l: tensor<f32>, %h: tensor<5xbf16>) {
    // CHECK: fsdp.start all_gather "net.0"(%{{.*}}, %{{.*}}) dims [0, 0] over #shard on gather : tensor<4x17xf32>, tensor<4xf32> -> !fsdp.future<tensor<13x17xf32>, tensor<13xf32>>
    %f = fsdp.start all_gather "net.0"(%w, %b) dims [0, 0] over #shard on gather
        : tensor<4x17xf32>, tensor<4xf32> -> !fsdp.future<tensor<13x17xf32>, tensor<13xf32>>
    // CHECK: fsdp.wait %{{.*}} : !fsdp.future<tensor<13x17xf32>, tensor<13xf32>> -> tensor<13x17xf32>, tensor<13xf32>
    %t:2 = fsdp.wait %f : !fsdp.future<tensor<13x17xf32>, tensor<13xf32>> -> tensor<13x17xf32>, tensor<13xf32>
    // CHECK: fsdp.start reduce_scatter avg(%{{.*}}) dims [0] over #shard on reduce of [@net.0.weight] {fsdp.at = array<i64: 64>} : tensor<13x17xf32> -> !fsdp.future<tensor<4x17xf32>>
    %r = fsdp.start reduce_scatter avg (%g) dims [0] over #shard on reduce of [@net.0.weight]
        {fsdp.at = array<i64: 64>} : tensor<13x17xf32> -> !fsdp.future<tensor<4x17xf32>>
    // CHECK: fsdp.start all_reduce max "metrics"(%{{.*}}) over #replicate for scale on replicate : tensor<f32> -> !fsdp.future<tensor<f32>>
    %a = fsdp.start all_reduce max "metrics"(%l) over #replicate for scale on replicate
        : tensor<f32> -> !fsdp.future<tensor<f32>>
    // CHECK: fsdp.start rotate "cp"(%{{.*}}) over #replicate for step on replicate : tensor<f32> -> !fsdp.future<tensor<f32>>
    %p = fsdp.start rotate "cp"(%l) over #replicate for step on replicate
        : tensor<f32> -> !fsdp.future<tensor<f32>>
    // CHECK: %[[EX:.+]] = fsdp.start all_to_all "net.0"(%{{.*}}) dims [0] over #replicate for gradient on reduce : tensor<5xbf16> -> !fsdp.future<tensor<6xbf16>>
    // CHECK: %[[PARTS:.+]] = fsdp.wait %[[EX]]
    // CHECK: fsdp.sum_parts %[[PARTS]] post 2.000000e+00 : tensor<6xbf16> -> tensor<3xf32>
    %x = fsdp.start all_to_all "net.0"(%h) dims [0] over #replicate for gradient on reduce : tensor<5xbf16> -> !fsdp.future<tensor<6xbf16>>
    %y = fsdp.wait %x : !fsdp.future<tensor<6xbf16>> -> tensor<6xbf16>
    %z = fsdp.sum_parts %y post 2.0 : tensor<6xbf16> -> tensor<3xf32>
    // CHECK: %[[UP:.+]] = fsdp.copy.start "net.0"(%{{.*}}) to device on upload : tensor<f32> -> !fsdp.future<tensor<f32>>
    %u = fsdp.copy.start "net.0"(%l) to device on upload : tensor<f32> -> !fsdp.future<tensor<f32>>
    // CHECK: fsdp.wait %[[UP]]
    %v = fsdp.wait %u : !fsdp.future<tensor<f32>> -> tensor<f32>
    // CHECK: fsdp.copy.start(%{{.*}}) to host on download : tensor<f32> -> !fsdp.future<tensor<f32>>
    %d = fsdp.copy.start (%v) to host on download : tensor<f32> -> !fsdp.future<tensor<f32>>
    // CHECK: fsdp.free %{{.*}}, %{{.*}} : tensor<13x17xf32>, tensor<13xf32>
    fsdp.free %t#0, %t#1 : tensor<13x17xf32>, tensor<13xf32>
    return
  }

  // CHECK: fsdp.state frozen @base.weight : tensor<32x36xui8> sharded <dim 0 over #shard> quantized <nf4 of tensor<32x64xbf16>>
  fsdp.state frozen @base.weight : tensor<32x36xui8> sharded <dim 0 over #shard> quantized <nf4 of tensor<32x64xbf16>>

  // CHECK: fsdp.state frozen @double.weight : tensor<2x16648xui8> quantized <fp4 block_size = 128 double_quant = true of tensor<256x256xbf16>>
  fsdp.state frozen @double.weight : tensor<2x16648xui8> quantized <fp4 block_size = 128 double_quant = true of tensor<256x256xbf16>>

  // CHECK-LABEL: func.func @quantized
  func.func @quantized(%b: tensor<32x36xui8>, %c: tensor<1x68xui8>, %d: tensor<2x16648xui8>) {
    // CHECK: fsdp.dequantize %{{.*}} nf4 : tensor<32x36xui8> -> tensor<32x64xbf16>
    %w = fsdp.dequantize %b nf4 : tensor<32x36xui8> -> tensor<32x64xbf16>
    // CHECK: fsdp.dequantize %{{.*}} int8 : tensor<1x68xui8> -> tensor<3x4xf32>
    %v = fsdp.dequantize %c int8 : tensor<1x68xui8> -> tensor<3x4xf32>
    // CHECK: fsdp.dequantize %{{.*}} fp4 {block_size = 128 : i64, double_quant} : tensor<2x16648xui8> -> tensor<256x256xbf16>
    %u = fsdp.dequantize %d fp4 {block_size = 128 : i64, double_quant} : tensor<2x16648xui8> -> tensor<256x256xbf16>
    return
  }

  // CHECK-LABEL: func.func @encodings
  func.func @encodings(%g: tensor<4x2xf32>) {
    // CHECK: %[[M:.+]] = fsdp.amax %{{.*}} : tensor<4x2xf32> -> tensor<f32>
    %m = fsdp.amax %g : tensor<4x2xf32> -> tensor<f32>
    // CHECK: %[[R:.+]] = fsdp.amax %{{.*}} along 1 : tensor<4x2xf32> -> tensor<4x1xf32>
    %r = fsdp.amax %g along 1 : tensor<4x2xf32> -> tensor<4x1xf32>
    // CHECK: %[[S:.+]] = fsdp.scale %[[M]] to f8E5M2 least 1.000000e+00 : tensor<f32>
    %s = fsdp.scale %m to f8E5M2 least 1.0 : tensor<f32>
    // CHECK: %[[T:.+]] = fsdp.scale %[[R]] to f8E4M3FN least 1.000000e+00 power_of_two : tensor<4x1xf32>
    %t = fsdp.scale %r to f8E4M3FN least 1.0 power_of_two : tensor<4x1xf32>
    // CHECK: fsdp.encode %{{.*}} by %[[T]] : tensor<4x2xf32>, tensor<4x1xf32> -> tensor<4x2xf8E4M3FN>
    %c = fsdp.encode %g by %t : tensor<4x2xf32>, tensor<4x1xf32> -> tensor<4x2xf8E4M3FN>
    // CHECK: fsdp.decode %{{.*}} by %[[S]] : tensor<4x2xf32>, tensor<f32>
    %d = fsdp.decode %g by %s : tensor<4x2xf32>, tensor<f32>
    return
  }

  // CHECK-LABEL: func.func @plan
  func.func @plan(%g: tensor<13x17xf32>) {
    // CHECK: fsdp.zero_padding %{{.*}} dim 0 over #shard : tensor<13x17xf32>
    fsdp.zero_padding %g dim 0 over #shard : tensor<13x17xf32>
    return
  }
}
