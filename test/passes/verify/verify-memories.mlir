// RUN: fsdp-opt %s --fsdp-verify-scheduled --split-input-file --verify-diagnostics

// Tensors that an op reads lie in one memory; constants lie where they are read.
module {
  fsdp.state optimizer @m : tensor<2xf32> memory host
  func.func @"infer/step"(%m: tensor<2xf32> {fsdp.state = @m}, %x: tensor<2xf32> {fsdp.input = "x"}) -> (tensor<2xf32> {fsdp.state = @m}) {
    %c = fsdp.constant dense<1.0> : tensor<2xf32>
    %n = aten.add.Tensor(%m, %c) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %n : tensor<2xf32>
  }
}

// -----

module {
  fsdp.state optimizer @m : tensor<2xf32> memory host
  // expected-note @+1 {{this one; an 'fsdp.copy' brings it there}}
  func.func @"infer/step"(%m: tensor<2xf32> {fsdp.state = @m}, %x: tensor<2xf32> {fsdp.input = "x"}) -> (tensor<2xf32> {fsdp.state = @m}) {
    // expected-error @+1 {{expects operands on the host, found one that lies elsewhere}}
    %n = aten.add.Tensor(%m, %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %n : tensor<2xf32>
  }
}

// -----

module {
  fsdp.state buffer @b : tensor<2xf32>
  fsdp.state optimizer @m : tensor<2xf32> memory host
  func.func @"infer/step"(%b: tensor<2xf32> {fsdp.state = @b}, %m: tensor<2xf32> {fsdp.state = @m}) -> (tensor<2xf32> {fsdp.state = @b}) {
    // expected-note @+1 {{this one}}
    %n = aten.neg(%m) : (tensor<2xf32>) -> tensor<2xf32>
    // expected-error @+1 {{expects operands on the device, found one that lies elsewhere}}
    return %n : tensor<2xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
module {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "a" memory host
  // expected-note @+1 {{this one}}
  func.func @"infer/step"(%w: tensor<2xf32> {fsdp.state = @w}) -> (tensor<4xf32> {fsdp.output = "o"}) {
    // expected-error @+1 {{expects operands on the device}}
    %f = fsdp.start all_gather "a"(%w) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %g = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %n = aten.neg(%g) : (tensor<4xf32>) -> tensor<4xf32>
    fsdp.free %g : tensor<4xf32>
    return %n : tensor<4xf32>
  }
}

// -----

// A copy leaves the memory that it is in.
module {
  fsdp.state optimizer @m : tensor<2xf32> memory host
  // expected-note @+1 {{this one}}
  func.func @"infer/step"(%m: tensor<2xf32> {fsdp.state = @m}) -> (tensor<2xf32> {fsdp.state = @m}) {
    // expected-error @+1 {{expects operands on the device}}
    %f = fsdp.copy.start (%m) to host on download : tensor<2xf32> -> !fsdp.future<tensor<2xf32>>
    %g = fsdp.wait %f : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return %g : tensor<2xf32>
  }
}

// -----

// A logical copy belongs to an earlier stage.
module {
  fsdp.state optimizer @m : tensor<2xf32> memory host
  func.func @"infer/step"(%m: tensor<2xf32> {fsdp.state = @m}) -> (tensor<2xf32> {fsdp.output = "o"}) {
    // expected-error @+1 {{is logical; expected a start and a wait}}
    %d = fsdp.copy %m to device : tensor<2xf32>
    return %d : tensor<2xf32>
  }
}
