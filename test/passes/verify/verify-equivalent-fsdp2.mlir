// Buckets in the layout of FSDP2 are compared with what was captured, and can be
// erased, while each member still moves by itself; copies are made when the program is
// planned, where `fsdp.copied` says of how many members.
//
// DEFINE: %{shard} = {shards<world = 2>, buckets<policy = classes, classes = ["Linear"], reshard = all, layout = fsdp2>}
//
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with=%{shard}' --fsdp-shard-pipeline --fsdp-schedule-pipeline -o %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-verify-equivalent=to=%stages/1-captured.mlir -o /dev/null
// RUN: FileCheck %s < %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-unshard --fsdp-verify-equivalent=to=%stages/1-captured.mlir | FileCheck %s --check-prefix=ERASED
// RUN: fsdp-opt %t.mlir --fsdp-plan-pipeline | FileCheck %s --check-prefix=PLANNED
//
// CHECK-NOT: {{fsdp.pack|_chunk_cat|as_strided|fsdp.copied}}
//
// ERASED:     fsdp.state parameter @fc1.weight : tensor<13x17xf32> source
// ERASED:     aten.mm
// ERASED-NOT: {{fsdp.pack|_chunk_cat|as_strided|clone}}
//
// PLANNED:     fsdp.pack
// PLANNED:     fsdp.start all_gather "fc1"{{.*}}fsdp.copied = 2 : i64
// PLANNED:     aten._chunk_cat
// PLANNED:     fsdp.start reduce_scatter avg "fc2"{{.*}}fsdp.copied = 2 : i64
// PLANNED-NOT: reduce_scatter.start {{.*}} of [
