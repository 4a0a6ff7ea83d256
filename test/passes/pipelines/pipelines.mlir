// The pipelines turn the captured program of test/ir/stages into exactly the
// sharded, the scheduled and the planned one; all stages at once give the same.
//
// DEFINE: %{shard} = {shards<world = 2>, buckets<policy = classes, classes = ["Linear"], reshard = all>, optimizer<lr = 0.001, numbers = {beta2 = 0.95, weight_decay = 0.1}, max_grad_norm = 1.0>}
//
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with=%{shard}' --fsdp-shard-pipeline -o %t.beside
// RUN: fsdp-opt %t.beside --fsdp-drop-reference | grep -v "^$" > %t.2
// RUN: grep -vE "^(//|$)" %stages/2-sharded.mlir | diff - %t.2
//
// RUN: fsdp-opt %t.beside --fsdp-schedule-pipeline | grep -v "^$" > %t.3
// RUN: grep -vE "^(//|$)" %stages/3-scheduled.mlir | diff - %t.3
//
// The bound of kernels' temporaries is a table of its own.
//
// RUN: fsdp-opt %t.3 --fsdp-plan-pipeline | grep -v "^$" | sed "s/scratch_bound = [0-9]*//" > %t.4
// RUN: grep -vE "^(//|$)" %stages/4-planned.mlir | sed "s/scratch_bound = [0-9]*//" | diff - %t.4
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with=%{shard}' --fsdp-pipeline | grep -v "^$" | sed "s/scratch_bound = [0-9]*//" | diff %t.4 -
//
// Erasing the sharding gives the captured program back.
//
// RUN: fsdp-opt %t.2 --fsdp-unshard --cse | grep -v "^$" > %t.1
// RUN: grep -vE "^(//|$)" %stages/1-captured.mlir | diff - %t.1
