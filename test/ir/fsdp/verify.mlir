// Every constraint of the ops' descriptions, violated once.
// RUN: fsdp-opt %s --split-input-file --verify-diagnostics

// AG-1
func.func @f(%s: tensor<7x17xf32>) {
  // expected-error @+1 {{expects one element type, found 'f32' in the shard and 'bf16' in the full tensor; a collective does not convert, insert a cast}}
  %0 = fsdp.all_gather %s dim 0 over <"shard", 2> : tensor<7x17xf32> -> tensor<13x17xbf16>
  return
}

// -----

// AG-2
func.func @f(%s: tensor<7x17xf32>) {
  // expected-error @+1 {{expects a shard of 8 along dim 0 (15 over 2 ranks, rounded up), found 7}}
  %0 = fsdp.all_gather %s dim 0 over <"shard", 2> : tensor<7x17xf32> -> tensor<15x17xf32>
  return
}

// -----

// AG-2
func.func @f(%g: tensor<13x17xf32>) {
  // expected-error @+1 {{expects a shard of 17 along dim 1, found 16}}
  %0 = fsdp.reduce_scatter avg %g dim 0 over <"shard", 2> : tensor<13x17xf32> -> tensor<7x16xf32>
  return
}

// -----

// AG-2
func.func @f(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects shard and full tensor of one rank greater than dim 1}}
  %0 = fsdp.shard %g dim 1 over <"shard", 2> : tensor<13xf32> -> tensor<7xf32>
  return
}

// -----

// AG-3
func.func @f(%g: tensor<12xf32>) {
  // expected-error @+1 {{expects a dim of 8 equal pieces, found dim 0 of 'tensor<12xf32>'}}
  %0 = fsdp.shard %g dim 0 in #fsdp.parts<blocks = 2, balanced = true> over <"cp", 2> for step : tensor<12xf32> -> tensor<6xf32>
  return
}

// -----

// AG-3
func.func @f(%g: tensor<12xf32>) {
  // expected-error @+1 {{expected at least one block, found 0}}
  %0 = fsdp.shard %g dim 0 in #fsdp.parts<blocks = 0> over <"cp", 2> for step : tensor<12xf32> -> tensor<6xf32>
  return
}

// -----

// SR-1
func.func @f(%g: tensor<12xf32>) {
  // expected-error @+1 {{expects one start for each of 2 ranks, found 1}}
  %0 = fsdp.select_rows %g dim 0 from [0] over <"cp", 2> : tensor<12xf32> -> tensor<3xf32>
  return
}

// -----

// SR-1
func.func @f(%g: tensor<12xf32>) {
  // expected-error @+1 {{expects starts from 0 to 9, found 10}}
  %0 = fsdp.select_rows %g dim 0 from [0, 10] over <"cp", 2> : tensor<12xf32> -> tensor<3xf32>
  return
}

// -----

// SR-2
func.func @f(%g: tensor<12x2xf32>) {
  // expected-error @+1 {{expects one shape but for dim 0, found 'tensor<12x2xf32>' and 'tensor<3x1xf32>'}}
  %0 = fsdp.select_rows %g dim 0 from [0, 9] over <"cp", 2> : tensor<12x2xf32> -> tensor<3x1xf32>
  return
}

// -----

// CO-1
func.func @f() {
  // expected-error @+1 {{expects a wrapped number to be a 0-d tensor, found 'tensor<1xf64>'}}
  %0 = fsdp.constant wrapped dense<[0.5]> : tensor<1xf64>
  return
}

// -----

// CO-1
func.func @f() {
  // expected-error @+1 {{expects a result of the value's type 'tensor<f64>', found 'tensor<f32>'}}
  %0 = "fsdp.constant"() <{value = dense<0.5> : tensor<f64>}> : () -> tensor<f32>
  return
}

// -----

// AC-1
func.func @f(%g: tensor<13xbf16>, %a: tensor<14xf32>) {
  // expected-error @+1 {{expects a gradient and a sum of one shape, found 'tensor<13xbf16>' and 'tensor<14xf32>'}}
  %0 = fsdp.accumulate %g into %a : tensor<13xbf16>, tensor<14xf32>
  return
}

// -----

// AC-2
func.func @f(%g: tensor<13xf32>, %a: tensor<13xf32>) {
  // expected-error @+1 {{expects to divide by at least 2 micro-batches, found 1}}
  %0 = fsdp.accumulate %g into %a divide 1 : tensor<13xf32>, tensor<13xf32>
  return
}

// -----

// expected-error @+1 {{'fsdp.micro_batches' expects a module and a number from 2 (i64)}}
module attributes {fsdp.micro_batches = 1 : i64} {
}

// -----

// OP-1
func.func @f(%w: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects one gradient for each of 1 parameters, found 0}}
  %0:3 = "fsdp.update"(%w, %w, %w, %s, %s) <{kind = #fsdp<optimizer_kind adamw>, numbers = {beta1 = 0.9, beta2 = 0.9, eps = 1.0e-8, weight_decay = 0.0},
      operandSegmentSizes = array<i32: 1, 0, 2, 0, 0, 1, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 2, 0>}>
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// OP-1
func.func @f(%w: tensor<4xf32>, %g: tensor<5xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects gradient 0 of the parameter's shape, found 'tensor<5xf32>' for 'tensor<4xf32>'}}
  %0:3 = "fsdp.update"(%w, %g, %w, %w, %s, %s) <{kind = #fsdp<optimizer_kind adam>, numbers = {beta1 = 0.9, beta2 = 0.9, eps = 1.0e-8, weight_decay = 0.0},
      operandSegmentSizes = array<i32: 1, 1, 2, 0, 0, 1, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 2, 0>}>
      : (tensor<4xf32>, tensor<5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// OP-1
func.func @f(%w: tensor<4xf32>, %g: tensor<5xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects new exp_avg 0 of the parameter's shape, found 'tensor<5xf32>' for 'tensor<4xf32>'}}
  %0:3 = "fsdp.update"(%w, %w, %w, %w, %s, %s) <{kind = #fsdp<optimizer_kind adam>, numbers = {beta1 = 0.9, beta2 = 0.9, eps = 1.0e-8, weight_decay = 0.0},
      operandSegmentSizes = array<i32: 1, 1, 2, 0, 0, 1, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 2, 0>}>
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<5xf32>, tensor<4xf32>)
  return
}

// -----

// OP-2
func.func @f(%w: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expects the numbers of sgd, {momentum = 9.000000e-01 : f64, nesterov = 0.000000e+00 : f64, weight_decay = 0.000000e+00 : f64}, found {momentum = 9.000000e-01 : f64}}}
  %0:2 = "fsdp.update"(%w, %w, %w, %lr) <{kind = #fsdp<optimizer_kind sgd>, numbers = {momentum = 0.9},
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, resultSegmentSizes = array<i32: 1, 1, 0>}>
      : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

// OP-2
func.func @f(%w: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expected "beta1" to be a number from 0 to less than 1, found 1.000000e+00 : f64}}
  %0:3 = fsdp.update adamw params(%w) grads(%w) exp_avgs(%w) exp_avg_sqs(%w) step %lr lr %lr betas(1.0, 0.9) eps 1.0e-8 weight_decay 0.0 : tensor<4xf32>
  return
}

// -----

// OP-2
func.func @f(%w: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expects a step, since its kind counts updates}}
  %0:3 = fsdp.update adamw params(%w) grads(%w) exp_avgs(%w) exp_avg_sqs(%w) lr %lr betas(0.9, 0.9) eps 1.0e-8 weight_decay 0.0 : tensor<4xf32>
  return
}

// -----

// OP-1
func.func @f(%w: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expects 0 moments for each of 1 parameters, found 1}}
  %0:2 = fsdp.update sgd params(%w) grads(%w) momentum_buffers(%w) lr %lr momentum 0.0 weight_decay 0.0 : tensor<4xf32>
  return
}

// -----

// OP-1
func.func @f(%w: tensor<4xf32>, %lr: tensor<f32>) {
  // expected-error @+1 {{expects 1 moments for each of 1 parameters, found 0}}
  %0 = fsdp.update sgd params(%w) grads(%w) momentum_buffers() lr %lr momentum 0.9 weight_decay 0.0 : tensor<4xf32>
  return
}

// -----

// FU-1
func.func @f(%w: tensor<7xf32>) {
  // expected-error @+1 {{expects a future of 1 tensors, one for each operand, found 2}}
  %0 = fsdp.start all_gather (%w) dims [0] over <"shard", 2> on gather : tensor<7xf32> -> !fsdp.future<tensor<13xf32>, tensor<13xf32>>
  return
}

// -----

// FU-1
func.func @f(%w: tensor<7xf32>) {
  // expected-error @+1 {{expects one dim for each of 1 operands, found 2}}
  %0 = fsdp.start all_gather (%w) dims [0, 0] over <"shard", 2> on gather : tensor<7xf32> -> !fsdp.future<tensor<13xf32>>
  return
}

// -----

// AG-2 of a member
func.func @f(%w: tensor<7xf32>) {
  // expected-error @+1 {{expects a shard of 8 along dim 0 (15 over 2 ranks, rounded up), found 7}}
  %0 = fsdp.start all_gather (%w) dims [0] over <"shard", 2> on gather : tensor<7xf32> -> !fsdp.future<tensor<15xf32>>
  return
}

// -----

// FU-2
func.func @f(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects 'of' to name one parameter for each of 1 operands, found 2}}
  %0 = fsdp.start reduce_scatter avg (%g) dims [0] over <"shard", 2> on reduce of [@a, @b] : tensor<13xf32> -> !fsdp.future<tensor<7xf32>>
  return
}

// -----

// FU-2
func.func @f(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects 'of' to name parameters, found "a"}}
  %0 = fsdp.start all_reduce avg (%g) over <"shard", 2> on reduce of ["a"] : tensor<13xf32> -> !fsdp.future<tensor<13xf32>>
  return
}

// -----

// FU-3
func.func @f(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects a promise of its operand's type 'tensor<13xf32>' at position 0, found 'tensor<12xf32>'}}
  %0 = fsdp.start all_reduce avg (%g) over <"shard", 2> for metric on reduce : tensor<13xf32> -> !fsdp.future<tensor<12xf32>>
  return
}

// -----

// FU-4
func.func @dims(%w: tensor<7xf32>) {
  // expected-error @+1 {{expects dims of all_gather}}
  %0 = fsdp.start all_gather (%w) over <"shard", 2> on gather : tensor<7xf32> -> !fsdp.future<tensor<13xf32>>
  return
}

// -----

func.func @no_dims(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects no dims of all_reduce}}
  %0 = fsdp.start all_reduce avg (%g) dims [0] over <"shard", 2> on reduce : tensor<13xf32> -> !fsdp.future<tensor<13xf32>>
  return
}

// -----

func.func @no_parts(%g: tensor<12xf32>) {
  // expected-error @+1 {{expects no parts of rotate, which moves no rows}}
  %0 = fsdp.start rotate (%g) in <blocks = 2> over <"cp", 2> for step on replicate : tensor<12xf32> -> !fsdp.future<tensor<12xf32>>
  return
}

// -----

func.func @no_gradients(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects neither 'of' nor divisors of rotate, which combines nothing}}
  %0 = fsdp.start rotate (%g) over <"cp", 2> for step on replicate of [@a] : tensor<13xf32> -> !fsdp.future<tensor<13xf32>>
  return
}

// -----

func.func @equal_parts(%g: tensor<13x2xbf16>) {
  // expected-error @+1 {{expects a promise of 'tensor<16x2xbf16>' for 'tensor<13x2xbf16>' among 4 ranks, found 'tensor<13x2xbf16>'}}
  %0 = fsdp.start all_to_all (%g) dims [0] over <"shard", 4> for gradient on reduce : tensor<13x2xbf16> -> !fsdp.future<tensor<13x2xbf16>>
  return
}

// -----

func.func @parts_of_what_is_summed(%p: tensor<16x2xbf16>) {
  // expected-error @+1 {{expects parts of the sum's shape behind each other, found 'tensor<16x2xbf16>' and 'tensor<3x2xf32>'}}
  %0 = fsdp.sum_parts %p : tensor<16x2xbf16> -> tensor<3x2xf32>
  return
}

// -----

func.func @sums_are_f32(%p: tensor<16x2xf64>) {
  // expected-error @+1 {{expects parts of f32, bf16, f16 or f8E4M3FN and a sum of f32, found 'tensor<16x2xf64>' and 'tensor<4x2xf64>'}}
  %0 = fsdp.sum_parts %p : tensor<16x2xf64> -> tensor<4x2xf64>
  return
}

// -----

func.func @divides_by_something(%p: tensor<16x2xbf16>) {
  // expected-error @+1 {{expects 'post' to be finite and above zero, found 0.000000e+00 : f64}}
  %0 = fsdp.sum_parts %p post 0.0 : tensor<16x2xbf16> -> tensor<4x2xf32>
  return
}

// -----

func.func @no_reduction(%w: tensor<7xf32>) {
  // expected-error @+1 {{expects no reduction of all_gather}}
  %0 = "fsdp.start"(%w) <{kind = #fsdp<collective all_gather>, combination = #fsdp<reduction avg>, dims = array<i64: 0>, group = #fsdp.group<"shard", 2>, purpose = #fsdp<purpose parameter>, stream = #fsdp<stream gather>}> : (tensor<7xf32>) -> !fsdp.future<tensor<13xf32>>
  return
}

// -----

// CP-1
func.func @f(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects a copy to the host to be on 'download', found 'upload'}}
  %0 = fsdp.copy.start (%g) to host on upload : tensor<13xf32> -> !fsdp.future<tensor<13xf32>>
  return
}

// -----

// FU-3
func.func @f(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects a promise of its operand's type 'tensor<13xf32>' at position 0, found 'tensor<12xf32>'}}
  %0 = fsdp.copy.start (%g) to device on upload : tensor<13xf32> -> !fsdp.future<tensor<12xf32>>
  return
}

// -----

// A future holds tensors
// expected-error @+1 {{expected ranked tensors in a future, found 'i64'}}
func.func private @f(!fsdp.future<i64>)

// -----

// WA-1
func.func @f(%g: tensor<13xf32>) {
  // expected-note @+1 {{promised here}}
  %0 = fsdp.start all_reduce avg (%g) over <"shard", 2> for metric on reduce : tensor<13xf32> -> !fsdp.future<tensor<13xf32>>
  // expected-error @+1 {{expects result 0 of the promised type 'tensor<13xf32>', found 'tensor<12xf32>'}}
  %1 = fsdp.wait %0 : !fsdp.future<tensor<13xf32>> -> tensor<12xf32>
  return
}

// -----

// WA-1
func.func @f(%f: !fsdp.future<tensor<13xf32>>) {
  // expected-error @+1 {{expects the future's 1 tensors, found 2}}
  %0:2 = fsdp.wait %f : !fsdp.future<tensor<13xf32>> -> tensor<13xf32>, tensor<13xf32>
  return
}

// -----

// ZP-1
func.func @f(%g: tensor<13xf32>) {
  // expected-error @+1 {{expects a dim of its operand, found 1 of 'tensor<13xf32>'}}
  fsdp.zero_padding %g dim 1 over <"shard", 2> : tensor<13xf32>
  return
}

// -----

// ST-1
// expected-error @+1 {{expects a ranked tensor of static shape, found 'tensor<?xf32>'}}
fsdp.state parameter @w : tensor<?xf32>

// -----

// ST-2
// expected-error @+1 {{expects a sharded dim below its rank 1, found dim 1}}
fsdp.state parameter @w : tensor<13xf32> sharded <dim 1 over <"shard", 2>>

// -----

// ST-3
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{expects 'of' to name another state of the module, found 'v'}}
  fsdp.state optimizer @"w/exp_avg" of @v : tensor<13xf32>
}

// -----

// ST-5
// expected-error @+1 {{expects its own name first among its names, found ["v", "w"]}}
fsdp.state parameter @w : tensor<13xf32> names ["v", "w"]

// -----

// ST-6
// expected-error @+1 {{expects an address of at least 0, found -64}}
fsdp.state parameter @w : tensor<13xf32> at -64

// -----

// BI-1
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{argument 0 is bound to 'w', which is no fsdp.state of the module}}
  func.func @f(%w: tensor<7xf32> {fsdp.state = @w}) { return }
}

// -----

// BI-1
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-error @+1 {{argument 0 expects the name of a state, found "w"}}
  func.func @f(%w: tensor<7xf32> {fsdp.state = "w"}) { return }
}

// -----

// BI-2
module attributes {fsdp.model = #fsdp.model<"m.pt2", 1, "0", torch "2.11.0">} {
  // expected-note @+1 {{state declared here}}
  fsdp.state parameter @w : tensor<13xf32>
  // expected-error @+1 {{result 0 is bound to 'w' and expects 'tensor<13xf32>', found 'tensor<7xf32>'}}
  func.func @f(%w: tensor<7xf32>) -> (tensor<7xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    return %w : tensor<7xf32>
  }
}

// -----

// BI-3
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-note @+1 {{state declared here}}
  fsdp.state parameter @w : tensor<15xf32> sharded <dim 0 over <"shard", 2>>
  // expected-error @+1 {{argument 0 is bound to 'w' and expects 'tensor<8xf32>', found 'tensor<7xf32>'}}
  func.func @f(%w: tensor<7xf32> {fsdp.state = @w}) { return }
}

// -----

// BI-4
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<7xf32>
  // expected-error @+1 {{expects a state to be bound once among its arguments, found 'w' twice}}
  func.func @f(%w: tensor<7xf32> {fsdp.state = @w}, %v: tensor<7xf32> {fsdp.state = @w}) { return }
}

// -----

// expected-error @+1 {{'fsdp.mesh' expects a module and a #fsdp.mesh}}
func.func private @f() attributes {fsdp.mesh = 1 : i64}

// -----

// expected-error @+1 {{'fsdp.model' expects a module and a #fsdp.model}}
module attributes {fsdp.model = "m.pt2"} {}

// -----

func.func @f(%s: tensor<7xf32>) {
  // expected-error @+1 {{'fsdp.at' expects array<i64: ...>, found 3 : i64}}
  %0 = fsdp.replay %s {fsdp.at = 3 : i64} : tensor<7xf32>
  return
}

// -----

// DR-1
func.func @f(%r: tensor<2xi32>) {
  // expected-error @+1 {{expects a state (seed, offset) of type tensor<2xi64>, found 'tensor<2xi32>'}}
  %0 = fsdp.draw uniform with [0.0, 1.0] site 0 from %r : (tensor<2xi32>) -> tensor<4xf32>
  return
}

// -----

// DR-2
func.func @f(%r: tensor<2xi64>) {
  // expected-error @+1 {{uniform expects 2 numbers, found 1}}
  %0 = fsdp.draw uniform with [0.0] site 0 from %r : (tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

// DR-2
func.func @f(%r: tensor<2xi64>) {
  // expected-error @+1 {{bernoulli expects a probability from 0 to 1, found 1.5}}
  %0 = fsdp.draw bernoulli with [1.5] site 0 from %r : (tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

// DR-2
func.func @f(%r: tensor<2xi64>) {
  // expected-error @+1 {{integer expects a range that is not empty, found 4 to 3}}
  %0 = fsdp.draw integer range [4, 3] site 0 from %r : (tensor<2xi64>) -> tensor<4xi64>
  return
}

// -----

// DR-2
func.func @f(%r: tensor<2xi64>) {
  // expected-error @+1 {{poisson expects 1 tensors of parameters, found 0}}
  %0 = fsdp.draw poisson site 0 from %r : (tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

// DR-3
func.func @f(%r: tensor<2xi64>) {
  // expected-error @+1 {{expects a site from 0 to 4294967295, found -1}}
  %0 = fsdp.draw uniform with [0.0, 1.0] site -1 from %r : (tensor<2xi64>) -> tensor<4xf32>
  return
}

// -----

// DR-4
func.func @f(%r: tensor<2xi64>) {
  // expected-error @+1 {{expects elements that normal draws, found 'i64'}}
  %0 = fsdp.draw normal with [0.0, 1.0] site 0 from %r : (tensor<2xi64>) -> tensor<4xi64>
  return
}

// -----

// DR-5
func.func @f(%r: tensor<2xi64>, %rate: tensor<1xf32>) {
  // expected-error @+1 {{expects parameters and result of one contiguous type, found 'tensor<1xf32>' and 'tensor<4xf32>'}}
  %0 = fsdp.draw poisson site 0 from %r given %rate : (tensor<2xi64>, tensor<1xf32>) -> tensor<4xf32>
  return
}

// -----

// DR-6
func.func @f(%r: tensor<2xi64>) {
  // expected-error @+1 {{expects a result that fills its storage, found}}
  %0 = fsdp.draw uniform with [0.0, 1.0] site 0 from %r : (tensor<2xi64>) -> tensor<4xf32, #aten.strides<2>>
  return
}

// -----

// ST-4
// expected-error @+1 {{expects a first value of type 'f32' or 'tensor<13xf32>', found 0.000000e+00 : f64}}
fsdp.state parameter @w : tensor<13xf32> init 0.0 : f64

// -----

// ST-7
module attributes {fsdp.weights = [#fsdp.weights_file<"m.safetensors", 99, "0">]} {
  fsdp.state parameter @v : tensor<13xf32> weight <"v" in 0 at 8 : 26 bf16>
  // expected-error @+1 {{expects a weight in one of the files of 'fsdp.weights', found file 1}}
  fsdp.state parameter @w : tensor<13xf32> weight <"w" in 1 at 8 : 52 f32>
}

// -----

// ST-7
module attributes {fsdp.weights = [#fsdp.weights_file<"m.safetensors", 99, "0">]} {
  // expected-error @+1 {{expects a weight of 26 bytes, found 52}}
  fsdp.state parameter @w : tensor<13xf32> weight <"w" in 0 at 8 : 52 bf16>
}

// -----

// ST-9
// expected-error @+1 {{expects an unsharded parameter to be 'local'}}
fsdp.state parameter @w : tensor<4x3xf32> sharded <dim 0 over <"shard", 2>> gradient <local>

// -----

// ST-9
// expected-error @+1 {{expects a parameter to have a 'gradient' rule}}
fsdp.state frozen @w : tensor<3x3xf32> gradient <local>

// -----

// expected-error @+1 {{expected 'reduce'}}
#rule = #fsdp.gradient_rule<>

// -----

// ST-8
// expected-error @+1 {{expects floating-point elements to be computed by #fsdp.init<eye>, found 'i64'}}
fsdp.state parameter @w : tensor<3x3xi64> init #fsdp.init<eye>

// -----

// expected-error @+1 {{expected 2 numbers for 'normal', found 1}}
fsdp.state parameter @w : tensor<3x3xf32> init #fsdp.init<normal(0.0)>

// -----

// expected-error @+1 {{expected a file, an offset, a size and an element type of weight 'w'}}
fsdp.state parameter @w : tensor<3x3xf32> weight <"w" in 0 at -8 : 36 f32>

// -----

// expected-error @+1 {{'fsdp.weights' expects a module and an array of #fsdp.weights_file}}
module attributes {fsdp.weights = ["m.safetensors"]} {
}

// -----

func.func @divides_by_zero(%g: tensor<4xf32>) {
  // expected-error @+1 {{expects 'pre' to be finite and above zero, found 0.000000e+00 : f64}}
  %0 = fsdp.reduce_scatter sum %g pre 0.0 dim 0 over <"shard", 2> : tensor<4xf32> -> tensor<2xf32>
  return
}

// -----

func.func @divides_an_average(%g: tensor<4xf32>) {
  // expected-error @+1 {{expects 'post' at a sum alone, found avg}}
  %0 = fsdp.all_reduce avg %g post 2.0 over <"shard", 2> for metric : tensor<4xf32>
  return
}

// -----

func.func @divides_integers(%g: tensor<4xi64>) {
  // expected-error @+1 {{expects floating-point numbers to divide by 'pre', found 'i64'}}
  %0 = fsdp.start all_reduce sum (%g) pre 2.0 over <"shard", 2> for metric on reduce : tensor<4xi64> -> !fsdp.future<tensor<4xi64>>
  return
}

// -----

// ST-10
// expected-error @+1 {{expects 'reduce' of a parameter to be a floating-point type other than its own 'f32', found 'f32'}}
fsdp.state parameter @w : tensor<4xf32> gradient <reduce f32>

// -----

// ST-9
// expected-error @+1 {{expects a parameter to have a 'gradient' rule}}
fsdp.state frozen @w : tensor<4xf32> gradient <reduce bf16>

// -----

// ST-2
// expected-error @+1 {{expects a flat state to have one dim that its ranks cut evenly, found 'tensor<7xf32>'}}
fsdp.state parameter @f : tensor<7xf32> flat <over <"shard", 2>>

// -----

// ST-2
// expected-error @+1 {{expects a flat state to have one dim that its ranks cut evenly, found 'tensor<2x4xf32>'}}
fsdp.state parameter @f : tensor<2x4xf32> flat <over <"shard", 2>>

// -----

// ST-11
// expected-error @+1 {{expects names and first values of a flat state to be its members', found its own}}
fsdp.state parameter @f : tensor<8xf32> flat <over <"shard", 2>> init 1.0 : f32

// -----

// ST-14
// expected-error @+1 {{expects a parameter with elements, in a bucket and sharded along dim 0, to be 'copied'}}
fsdp.state parameter @w : tensor<4x4xf32> sharded <dim 1 over <"shard", 2>> bucket "a" copied

// -----

// ST-14
// expected-error @+1 {{expects a parameter with elements, in a bucket and sharded along dim 0, to be 'copied'}}
fsdp.state buffer @w : tensor<4x4xf32> sharded <dim 0 over <"shard", 2>> bucket "a" copied

// -----

// ST-12
// expected-error @+1 {{expects no 'at' of what is part of a flat state, which has it}}
fsdp.state parameter @w : tensor<4xf32> part <@f at 0> at 16

// -----

// ST-13
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> sharded <dim 0 over <"shard", 2>>
  // expected-error @+1 {{expects to be part of a flat state of the module, found 'f'}}
  fsdp.state parameter @w : tensor<4xf32> part <@f at 0>
}

// -----

// ST-13
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-note @+1 {{the flat state}}
  fsdp.state parameter @f : tensor<8xf32> flat <over <"shard", 2>>
  fsdp.state parameter @w : tensor<4xf32> part <@f at 0>
  // expected-error @+1 {{expects to lie behind the member before it and inside of its flat state, found elements 3 to 7}}
  fsdp.state parameter @v : tensor<4xf32> part <@f at 3>
}

// -----

// ST-13
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-note @+1 {{the flat state}}
  fsdp.state parameter @f : tensor<8xf32> flat <over <"shard", 2>>
  // expected-error @+1 {{expects to lie behind the member before it and inside of its flat state, found elements 6 to 10}}
  fsdp.state parameter @w : tensor<4xf32> part <@f at 6>
}

// -----

// ST-13
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // expected-note @+1 {{the flat state}}
  fsdp.state parameter @f : tensor<8xf32> flat <over <"shard", 2>>
  // expected-error @+1 {{expects a flat state of its element type, role and group}}
  fsdp.state frozen @w : tensor<4xf32> part <@f at 0>
}

// -----

// BI-5
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> flat <over <"shard", 2>>
  fsdp.state parameter @w : tensor<4xf32> part <@f at 0>
  // expected-error @+1 {{argument 0 is bound to 'w', which is part of the flat state 'f'; bind that one}}
  func.func @"train/step"(%w: tensor<4xf32> {fsdp.state = @w}) {
    return
  }
}

// -----

// PK-1
func.func @packs_with_too_few_offsets(%g: tensor<4xf32>) {
  // expected-error @+1 {{expects one offset for each of 2 operands, found 1}}
  %0 = fsdp.pack(%g, %g) at [0] : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// PK-1
func.func @packs_one_over_the_other(%g: tensor<4xf32>) {
  // expected-error @+1 {{expects operand 1 from element 4 on, behind the one before it, found 3}}
  %0 = fsdp.pack(%g, %g) at [0, 3] : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// PK-1
func.func @packs_beyond_the_end(%g: tensor<4xf32>) {
  // expected-error @+1 {{expects a result of at least 9 elements, found 'tensor<8xf32>'}}
  %0 = fsdp.pack(%g) at [5] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// PK-2
func.func @packs_another_type(%g: tensor<4xbf16>) {
  // expected-error @+1 {{expects operands of the result's element type 'f32', found 'tensor<4xbf16>'; packing does not convert, insert a cast}}
  %0 = fsdp.pack(%g) at [0] : tensor<4xbf16> -> tensor<8xf32>
  return
}

// -----

func.func @unpacks_beyond_the_end(%p: tensor<8xf32>) {
  // expected-error @+1 {{expects its 4 elements from element 5 on to lie inside of 'tensor<8xf32>'}}
  %0 = fsdp.unpack %p at 5 : tensor<8xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @unpacks_from_before_the_begin(%p: tensor<8xf32>) {
  // expected-error @+1 {{expects its 4 elements from element -1 on to lie inside of 'tensor<8xf32>'}}
  %0 = fsdp.unpack %p at -1 : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @unpacks_more_than_there_is(%p: tensor<8xf32>) {
  // expected-error @+1 {{expects its 9 elements from element 0 on to lie inside of 'tensor<8xf32>'}}
  %0 = fsdp.unpack %p at 0 : tensor<8xf32> -> tensor<3x3xf32>
  return
}

// -----

func.func @unpacks_another_type(%p: tensor<8xf32>) {
  // expected-error @+1 {{expects a result of the operand's element type 'f32', found 'tensor<4xbf16>'}}
  %0 = fsdp.unpack %p at 0 : tensor<8xf32> -> tensor<4xbf16>
  return
}

// -----

func.func @unpacks_rows(%p: tensor<2x4xf32>) {
  // expected-error @+1 {{expects an operand of one dim and a contiguous result, found 'tensor<2x4xf32>' and 'tensor<4xf32>'}}
  %0 = fsdp.unpack %p at 0 : tensor<2x4xf32> -> tensor<4xf32>
  return
}

// -----

// expected-error @below {{'fsdp.schedule' expects a module and a #fsdp.schedule}}
module attributes {fsdp.schedule = 3 : i64} {}

// -----

// expected-error @below {{'fsdp.seed' expects a module and a number from 0 (i64)}}
module attributes {fsdp.seed = -1 : i64} {}

// -----

// expected-error @below {{'fsdp.data' expects a module and a #fsdp.data}}
func.func @data() attributes {fsdp.data = #fsdp.data<files = ["a"]>} { return }

// -----

// expected-error @below {{expected 'files' to be an array of strings, found [1]}}
module attributes {fsdp.data = #fsdp.data<files = [1]>} {}

// -----

// expected-error @below {{expected 'type' to be ui16 or ui32, found 'i64'}}
module attributes {fsdp.data = #fsdp.data<files = ["a"], type = i64>} {}

// -----

// expected-error @below {{expected 'length_pool' to be groups of 'length_group' rows, found 96 and 64}}
module attributes {fsdp.data = #fsdp.data<length_pool = 96>} {}

// -----

// expected-error @below {{expected 'input' to be a name, found ""}}
// expected-error @below {{failed to parse Fsdp_Data parameter 'pad'}}
module attributes {fsdp.data = #fsdp.data<pad = [#fsdp.padding<input = "">]>} {}

// -----

// expected-error @below {{expected 'every' to be a number from 0, found -1}}
module attributes {fsdp.validation = #fsdp.validation<files = ["a"], every = -1>} {}

// -----

// expected-error @below {{expected 'files' to name a file, or to be absent}}
module attributes {fsdp.validation = #fsdp.validation<files = []>} {}

// -----

// expected-error @below {{expected a positive norm to clip to, found 0.000000e+00}}
module attributes {fsdp.optimizer = #fsdp.optimizer<max_grad_norm = 0.0>} {}

// -----

// expected-error @below {{expected 'lr' to be a finite number}}
module attributes {fsdp.optimizer = #fsdp.optimizer<lr = 0x7FF0000000000000>} {}

// -----

// expected-error @below {{expected 'groups' to be an array of #fsdp.param_group, found ["*.bias"]}}
module attributes {fsdp.optimizer = #fsdp.optimizer<groups = ["*.bias"]>} {}

// -----

// expected-error @below {{expected "weight_decay" to be a number from 0, found -1.0}}
// expected-error @below {{failed to parse Fsdp_Optimizer parameter 'groups'}}
module attributes {fsdp.optimizer = #fsdp.optimizer<groups = [#fsdp.param_group<params = ["a"], numbers = {weight_decay = -1.0}>]>} {}

// -----

// expected-error @below {{expected 'params' to be patterns of names, found [""]}}
// expected-error @below {{failed to parse Fsdp_Shards parameter 'dims'}}
module attributes {fsdp.shards = #fsdp.shards<dims = [#fsdp.dim_rule<params = [""]>]>} {}

// -----

// expected-error @below {{expected a bucket with a name}}
// expected-error @below {{failed to parse Fsdp_Buckets parameter 'named'}}
module attributes {fsdp.buckets = #fsdp.buckets<named = [#fsdp.bucket<"", ["a"]>]>} {}

// -----

// expected-error @below {{expected 'rules' to be an array of #fsdp.rule, found [1]}}
module attributes {fsdp.buckets = #fsdp.buckets<rules = [1]>} {}

// -----

// expected-error @below {{'fsdp.step' expects a module and a #fsdp.step}}
module attributes {fsdp.step = #fsdp.shards<world = 2>} {}

// -----

// expected-error @below {{expects 'group' to be a number from 1 of a parameter's group, found 0}}
fsdp.state parameter @w : tensor<4xf32> group 0

// -----

// expected-error @below {{expects 'group' to be a number from 1 of a parameter's group, found 1}}
fsdp.state buffer @w : tensor<4xf32> group 1

// -----

// expected-error @below {{expected 'warmup_ratio' to be a number from 0}}
module attributes {fsdp.schedule = #fsdp.schedule<kind = linear, warmup_ratio = -1.0>} {}

// -----

func.func @codes_without_scales(%w: tensor<35x150xf32>, %c: tensor<35x150xui8>, %n: tensor<f32>) {
  // expected-error @+1 {{expects a scale for each moment, all of them ui8 or f8E4M3FN, or none, found 0 scales for 2 codes among 2 moments}}
  %a:3 = fsdp.update adamw params(%w) grads(%w) exp_avgs(%c) exp_avg_sqs(%c) step %n lr %n
      betas(0.9, 0.5) eps 1.0e-08 weight_decay 0.1 : tensor<35x150xf32> moments ui8
  return
}

// -----

func.func @too_few_scales(%w: tensor<35x150xf32>, %c: tensor<35x150xui8>, %s: tensor<20xf32>, %n: tensor<f32>) {
  // expected-error @+1 {{expects scales of f32 for 21 blocks of 'tensor<35x150xui8>', found 'tensor<20xf32>'}}
  %a:3 = fsdp.update sgd params(%w) grads(%w) momentum_buffers(%c) scales(%s) lr %n
      momentum 0.9 weight_decay 0.1 : tensor<35x150xf32> moments ui8 scales tensor<20xf32>
  return
}

// -----

func.func @maxima_of_some(%w: tensor<35x150xf32>, %c: tensor<35x150xui8>, %s: tensor<21xf32>) {
  // expected-error @+1 {{expects maxima of tensor<21xf32>, found 'tensor<20xf32>'}}
  %e = fsdp.block_maxima sgd params(%w) grads(%w) momentum_buffers(%c) scales(%s)
      momentum 0.5 weight_decay 0.0
      : (tensor<35x150xf32>, tensor<35x150xf32>, tensor<35x150xui8>, tensor<21xf32>) -> tensor<20xf32>
  return
}

// -----

func.func @maxima_of_numbers(%w: tensor<35x150xf32>) {
  // expected-error @+1 {{expects moments of ui8 or f8E4M3FN, found 'tensor<35x150xf32>'}}
  %e = fsdp.block_maxima sgd params(%w) grads(%w) momentum_buffers(%w) scales()
      momentum 0.5 weight_decay 0.0
      : (tensor<35x150xf32>, tensor<35x150xf32>, tensor<35x150xf32>) -> tensor<0xf32>
  return
}

// -----

// RD-3: a maximum is no sum.
func.func @f(%g: tensor<8xbf16>) {
  // expected-error @+1 {{expects one element type, found 'f32' in the shard and 'bf16' in the full tensor}}
  %s = fsdp.reduce_scatter max %g dim 0 over <"shard", 4> : tensor<8xbf16> -> tensor<2xf32>
  return
}

// -----

// RD-3: nor may it lose bits.
func.func @f(%g: tensor<8xf32>) {
  // expected-error @+1 {{expects one element type, found 'bf16' in the shard and 'f32' in the full tensor}}
  %s = fsdp.reduce_scatter sum %g dim 0 over <"shard", 4> : tensor<8xf32> -> tensor<2xbf16>
  return
}

// -----

// DQ-1
func.func @f(%b: tensor<4x36xui8>) {
  // expected-error @+1 {{expects the blocks of 'tensor<16x17xf32>' to have type 'tensor<5x36xui8>', found 'tensor<4x36xui8>'}}
  %0 = fsdp.dequantize %b nf4 : tensor<4x36xui8> -> tensor<16x17xf32>
  return
}

// -----

// DQ-1
func.func @f(%b: tensor<4x68xui8>) {
  // expected-error @+1 {{expects a contiguous result with elements of f32, bf16 or f16, found 'tensor<16x16xf64>'}}
  %0 = fsdp.dequantize %b int8 : tensor<4x68xui8> -> tensor<16x16xf64>
  return
}

// -----

// DQ-1
func.func @f(%b: tensor<3x52xui8>) {
  // expected-error @+1 {{expects blocks of 32, 64 ... 4096 elements, found 96}}
  %0 = fsdp.dequantize %b nf4 {block_size = 96 : i64} : tensor<3x52xui8> -> tensor<16x16xf32>
  return
}

// -----

// DQ-1
func.func @f(%b: tensor<4x36xui8>) {
  // expected-error @+1 {{to have type 'tensor<1x8456xui8>', found 'tensor<4x36xui8>'}}
  %0 = fsdp.dequantize %b nf4 {double_quant} : tensor<4x36xui8> -> tensor<16x16xf32>
  return
}

// -----

// expected-error @+1 {{expected blocks of 32, 64 ... 4096 elements, found 8192}}
fsdp.state frozen @w : tensor<1x4100xui8> quantized <nf4 block_size = 8192 of tensor<16x16xf32>>

// -----

// expected-error @+1 {{expected blocks of 32, 64 ... 4096 elements, found 65}}
module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*"], block_size = 65>} {
}

// -----

// ST-17
// expected-error @+1 {{expects blocks of #fsdp.quantized<int8 of tensor<16x16xf32>> to have type 'tensor<4x68xui8>', found 'tensor<4x36xui8>'}}
fsdp.state frozen @w : tensor<4x36xui8> quantized <int8 of tensor<16x16xf32>>

// -----

// ST-17
// expected-error @+1 {{expects what is quantized to be a frozen parameter that is neither split nor flat}}
fsdp.state parameter @w : tensor<4x36xui8> quantized <nf4 of tensor<16x16xf32>>

// -----

// ST-17
// expected-error @+1 {{expects whole blocks to be cut along dim 0, found dim 1}}
fsdp.state frozen @w : tensor<4x36xui8> sharded <dim 1 over <"shard", 2>> quantized <nf4 of tensor<16x16xf32>>

// -----

// expected-error @+1 {{expected a contiguous tensor with elements of f32, bf16 or f16 to be quantized, found 'tensor<16x16xi64>'}}
fsdp.state frozen @w : tensor<4x36xui8> quantized <nf4 of tensor<16x16xi64>>

// -----

// expected-error @+1 {{'fsdp.adapters' expects a module and an array of #fsdp.adapter}}
module attributes {fsdp.adapters = ["w"]} {}

// -----

// EN-1
func.func @amax(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{expects a result of the shape [4, 1], found 'tensor<1x2xf32>'}}
  %0 = fsdp.amax %x along 1 : tensor<4x2xf32> -> tensor<1x2xf32>
  return
}

// -----

func.func @amax(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{expects a dim of its operand, found 2}}
  %0 = fsdp.amax %x along 2 : tensor<4x2xf32> -> tensor<4x1xf32>
  return
}

// -----

// EN-2
func.func @scale(%m: tensor<f32>) {
  // expected-error @+1 {{expects f8E4M3FN or f8E5M2, found 'bf16'}}
  %0 = fsdp.scale %m to bf16 least 1.0 : tensor<f32>
  return
}

// -----

// EN-3
func.func @scale(%m: tensor<bf16>) {
  // expected-error @+1 {{expects numbers of f32, found 'bf16'}}
  %0 = fsdp.scale %m to f8E5M2 least 1.0 : tensor<bf16>
  return
}

// -----

// EN-4
func.func @encode(%x: tensor<4x2xf32>, %s: tensor<2x1xf32>) {
  // expected-error @+1 {{expects a scale of one number, or of one for each row or column, found 'tensor<2x1xf32>'}}
  %0 = fsdp.encode %x by %s : tensor<4x2xf32>, tensor<2x1xf32> -> tensor<4x2xf8E4M3FN>
  return
}

// -----

func.func @encode(%x: tensor<4x2xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects a result of its operand's shape, found 'tensor<2x4xf8E4M3FN>' of 'tensor<4x2xf32>'}}
  %0 = fsdp.encode %x by %s : tensor<4x2xf32>, tensor<f32> -> tensor<2x4xf8E4M3FN>
  return
}

// -----

func.func @decode(%x: tensor<4xf32>, %s: tensor<1xf32>) {
  // expected-error @+1 {{expects one number for a scale, found 'tensor<1xf32>'}}
  %0 = fsdp.decode %x by %s : tensor<4xf32>, tensor<1xf32>
  return
}

// -----

// OP-4
func.func @f(%w: tensor<4xf32>, %v: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{with rates updates one parameter of f32, whose moments are f32}}
  %0:2 = fsdp.update sgd params(%w, %v) grads(%w, %v) momentum_buffers() lr %s rates(%s) momentum 0.0 weight_decay 0.0 : tensor<4xf32>, tensor<4xf32>
  return
}

// -----

// OP-4
func.func @f(%w: tensor<4xbf16>, %s: tensor<f32>) {
  // expected-error @+1 {{with rates updates one parameter of f32, whose moments are f32}}
  %0 = fsdp.update sgd params(%w) grads(%w) momentum_buffers() lr %s rates(%s) momentum 0.0 weight_decay 0.0 : tensor<4xbf16>
  return
}

// -----

// K-2
func.func @f(%w: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{expects operators of 'aten' in its body, or updates with rates}}
  %0 = fsdp.kernel(%w, %s) in_place [true, false] : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<f32>):
    // expected-note @+1 {{found this op}}
    %1 = fsdp.update sgd params(%a) grads(%a) momentum_buffers() lr %b momentum 0.0 weight_decay 0.0 : tensor<4xf32>
    fsdp.yield %1 : tensor<4xf32>
  }
  return
}

// -----

// ST-19
module {
  // expected-error @+1 {{expects a parameter that it is kept of}}
  fsdp.state optimizer @"w/ema" : tensor<4xf32> init #fsdp.init<owner>
}

// -----

// expected-error @+1 {{expected a decay from 0 to 1, found 2}}
module attributes {fsdp.ema = #fsdp.ema<decay = 2.0>} {
}

// -----

// expected-error @+1 {{expected averages of every n-th update for an n of at least 1, found 0}}
module attributes {fsdp.ema = #fsdp.ema<every = 0>} {
}

// -----

// expected-error @+1 {{expected a warm-up by numbers above 0, found 0}}
module attributes {fsdp.ema = #fsdp.ema<warmup = power, gamma = 0.0>} {
}
