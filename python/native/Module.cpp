//===- Module.cpp - The native module of fsdp_opt -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp_opt._native: the door, checkpoints of whole tensors, and the list of
// errors. Its types are in fsdp_opt/_native.pyi.
//
//===----------------------------------------------------------------------===//

#include "python/native/Door.h"
#include "python/native/LengthOrder.h"
#include "python/native/Options.h"
#include "python/native/WholeCheckpoint.h"
#include "runtime/train/EventFile.h"

#include "plan/DType.h"
#include "plan/Schedule.h"
#include "support/Error.h"
#include "support/Exceptions.h"
#include "support/Optimizers.h"
#include "support/Schedules.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace fsdp;

namespace {

using Lent = nb::ndarray<nb::ro, nb::device::cpu, nb::c_contig>;

struct ElementType {
  std::string_view name;
  nb::dlpack::dtype_code code;
  uint8_t bits;
};
/// Those that DLPack has and programs take or return.
constexpr ElementType kElementTypes[] = {
    {"f32", nb::dlpack::dtype_code::Float, 32},
    {"f64", nb::dlpack::dtype_code::Float, 64},
    {"f16", nb::dlpack::dtype_code::Float, 16},
    {"bf16", nb::dlpack::dtype_code::Bfloat, 16},
    {"i64", nb::dlpack::dtype_code::Int, 64},
    {"i32", nb::dlpack::dtype_code::Int, 32},
    {"i16", nb::dlpack::dtype_code::Int, 16},
    {"i8", nb::dlpack::dtype_code::Int, 8},
    {"u8", nb::dlpack::dtype_code::UInt, 8},
    {"u16", nb::dlpack::dtype_code::UInt, 16},
    {"u32", nb::dlpack::dtype_code::UInt, 32},
    {"u64", nb::dlpack::dtype_code::UInt, 64},
    {"bool", nb::dlpack::dtype_code::Bool, 8},
    {"c64", nb::dlpack::dtype_code::Complex, 64},
    {"c128", nb::dlpack::dtype_code::Complex, 128},
};

LentTensor lend(std::string name, const Lent &array) {
  nb::dlpack::dtype dtype = array.dtype();
  for (const ElementType &type : kElementTypes)
    if (dtype.code == static_cast<uint8_t>(type.code) &&
        dtype.bits == type.bits && dtype.lanes == 1) {
      std::vector<int64_t> shape(array.shape_ptr(),
                                 array.shape_ptr() + array.ndim());
      return {std::move(name), type.name, std::move(shape),
              static_cast<const std::byte *>(array.data())};
    }
  throw Error(ErrorId::DataType,
              "input '" + name +
                  "': expected a tensor of numbers of a type "
                  "that programs take, found one of DLPack's "
                  "type " +
                  std::to_string(dtype.code) + " with " +
                  std::to_string(dtype.bits) + " bits");
}

/// The arrays live as long as `holders`.
std::vector<LentTensor> lendAll(const nb::dict &batch,
                                std::vector<Lent> &holders) {
  std::vector<LentTensor> all;
  for (auto [name, value] : batch) {
    holders.push_back(nb::cast<Lent>(value));
    all.push_back(lend(nb::cast<std::string>(name), holders.back()));
  }
  return all;
}

nb::object toArray(JoinedOutput output) {
  for (const ElementType &type : kElementTypes) {
    if (type.name != output.dtype)
      continue;
    std::byte *data = output.data.release();
    nb::capsule owner(data, [](void *bytes) noexcept {
      delete[] static_cast<std::byte *>(bytes);
    });
    std::vector<size_t> shape(output.shape.begin(), output.shape.end());
    nb::dlpack::dtype dtype{static_cast<uint8_t>(type.code), type.bits, 1};
    return nb::cast(nb::ndarray<nb::pytorch>(data, shape.size(), shape.data(),
                                             owner, nullptr, dtype));
  }
  throw Error(ErrorId::DataType, "output '" + output.name + "' is of type " +
                                     std::string(output.dtype) +
                                     ", which Python does not get; leave it "
                                     "out of --output");
}

nb::tuple step(Door &door, const nb::dict &batch) {
  std::vector<Lent> holders;
  std::vector<LentTensor> lent = lendAll(batch, holders);
  DoorStep made;
  {
    nb::gil_scoped_release release;
    made = door.step(lent);
  }
  nb::dict outputs, metrics;
  for (JoinedOutput &output : made.outputs) {
    std::string name = output.name;
    outputs[name.c_str()] = toArray(std::move(output));
  }
  StepResult &result = made.result;
  for (const auto &[name, value] : result.metrics)
    metrics[name.c_str()] = value;
  for (const auto &[name, value] : result.norms)
    metrics[("norm/" + name).c_str()] = value;
  return nb::make_tuple(result.step, result.loss, result.gradNorm, result.lr,
                        result.isSkipped, metrics, outputs);
}

double evaluate(Door &door, const nb::dict &batch) {
  std::vector<Lent> holders;
  std::vector<LentTensor> lent = lendAll(batch, holders);
  nb::gil_scoped_release release;
  return door.evaluate(lent);
}

nb::tuple evaluateFiles(Door &door) {
  EvalResult result;
  {
    nb::gil_scoped_release release;
    result = door.evaluate();
  }
  return nb::make_tuple(result.loss, result.batches, result.rows);
}

void exportWeights(Door &door, const std::string &path, uint64_t shardBytes,
                   const std::string &what) {
  static constexpr std::pair<std::string_view, Exported> words[] = {
      {"all", Exported::All},
      {"trained", Exported::Trained},
      {"merged", Exported::Merged},
      {"averaged", Exported::Averaged}};
  const auto *found = std::ranges::find(
      words, what, &std::pair<std::string_view, Exported>::first);
  if (found == std::end(words))
    throw std::invalid_argument("nothing of a model is called " + what);
  door.exportWeights(path, shardBytes, found->second);
}

void hold(Door &door, const std::string &name, const Lent &array) {
  LentTensor tensor = lend(name, array);
  nb::gil_scoped_release release;
  door.hold(tensor);
}

nb::dict memory(const Door &door) {
  MemoryUse use = door.memory();
  nb::dict all;
  all["tensors"] = use.arena;
  all["host"] = use.host;
  all["scratch"] = use.scratch;
  all["scratch_bound"] = use.scratchBound;
  all["staging"] = use.staging;
  return all;
}

nb::dict describe(const std::string &path) {
  KeptArtifact artifact = describeArtifact(path);
  nb::list states, groups;
  for (const KeptState &state : artifact.states)
    states.append(nb::make_tuple(state.names, state.role, state.dtype,
                                 state.shape, state.mayLack));
  for (const KeptGroup &group : artifact.groups) {
    nb::dict each;
    const OptimizerFacts &facts = getFacts(group.optimizer);
    each["optimizer"] = std::string(facts.torchClass);
    each["params"] = group.params;
    each["lr"] = group.lr;
    for (const auto &[key, numbers] : getKeys(facts)) {
      nb::list values;
      for (OptimizerNumber number : numbers)
        if (getFacts(number).range == NumberRange::flag)
          values.append(group.numbers[number] != 0);
        else
          values.append(group.numbers[number]);
      each[nb::str(key.data(), key.size())] =
          numbers.size() == 1 ? nb::object(values[0])
                              : nb::object(nb::tuple(values));
    }
    groups.append(each);
  }
  nb::dict all;
  all["states"] = states;
  all["groups"] = groups;
  all["micro_batches"] = artifact.microBatches;
  all["seed"] = artifact.seed;
  all["lr"] = artifact.lr;
  all["lr_schedule"] = artifact.schedule;
  return all;
}

std::string writeCheckpoint(const std::string &artifact,
                            const std::string &folder, uint64_t step,
                            uint64_t rows, const nb::dict &tensors) {
  std::vector<Lent> holders;
  std::vector<LentTensor> lent = lendAll(tensors, holders);
  nb::gil_scoped_release release;
  return writeWholeCheckpoint(artifact, folder, step, rows, lent);
}

/// As fsdp_opt.errors makes them.
void raise(const Error &error) {
  std::string id(getErrorInfo(error.id()).id);
  try {
    nb::object made = nb::module_::import_("fsdp_opt.errors")
                          .attr("make")(id, std::string(error.what()));
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(made.ptr())),
                    made.ptr());
  } catch (nb::python_error &failure) {
    failure.restore();
  }
}

/// (id, title, what to do, exit status) of each error.
nb::list listErrors() {
  static constexpr ErrorId all[] = {
#define FSDP_ERROR(id, name, status, title, advice) ErrorId::name,
#include "support/Errors.def"
  };
  nb::list list;
  for (ErrorId id : all) {
    const ErrorInfo &info = getErrorInfo(id);
    list.append(nb::make_tuple(std::string(info.id), std::string(info.title),
                               std::string(info.advice), info.exitStatus));
  }
  return list;
}

/// Names of a schedule's own numbers.
nb::list listNumbers(const ScheduleName &schedule) {
  nb::list names;
  for (const ScheduleFacts::Number &each : getFacts(schedule.kind).numbers) {
    std::string_view name = getFacts(each.number).name;
    names.append(nb::str(name.data(), name.size()));
  }
  return names;
}

nb::dict listSchedules() {
  nb::dict all;
  for (const ScheduleName &each : getScheduleNames())
    all[nb::str(each.name.data(), each.name.size())] =
        nb::make_tuple(each.warms, getFacts(each.kind).ends, listNumbers(each));
  return all;
}

std::vector<double> getRateFactors(const std::string &schedule, double lr,
                                   uint64_t steps) {
  RateSchedule rates(parseSchedule(schedule, lr), lr, steps);
  std::vector<double> factors;
  for (uint64_t step = 0; step < steps; ++step)
    factors.push_back(rates.getFactor(step));
  return factors;
}

void defineFunctions(nb::module_ &module) {
  module.def("list_errors", listErrors);
  module.def("session_options", listSessionOptions);
  module.def("describe_artifact", describe, nb::arg("path"));
  module.def(
      "order_by_length",
      [](const std::vector<uint64_t> &lengths, uint64_t epoch, uint64_t pool,
         uint64_t group, bool shuffle, uint64_t seed) {
        plan::DataT data;
        data.length_pool = pool;
        data.length_group = group;
        data.shuffle = shuffle;
        data.seed = seed;
        return orderByLength(lengths, data, epoch);
      },
      nb::arg("lengths"), nb::arg("epoch"), nb::arg("pool"), nb::arg("group"),
      nb::arg("shuffle"), nb::arg("seed"));
  module.def("schedules", listSchedules);
  module.def(
      "why_no_schedule",
      [](const std::string &name) { return std::string(whyNoSchedule(name)); },
      nb::arg("name"));
  module.def("rate_factors", getRateFactors, nb::arg("schedule"), nb::arg("lr"),
             nb::arg("steps"));
  module.def("rate_factor", rateFactor, nb::arg("artifact"), nb::arg("step"));
  module.def("write_checkpoint", writeCheckpoint, nb::arg("artifact"),
             nb::arg("folder"), nb::arg("step"), nb::arg("rows"),
             nb::arg("tensors"));
  nb::class_<EventFile>(module, "EventFile")
      .def(nb::init<const std::string &, uint64_t>(), nb::arg("folder"),
           nb::arg("first"))
      .def_prop_ro("path", &EventFile::path)
      .def(
          "write",
          [](EventFile &file, uint64_t step, const nb::dict &values) {
            EventFile::Values list;
            for (auto [name, value] : values)
              list.emplace_back(nb::cast<std::string>(name),
                                nb::cast<double>(value));
            file.write(step, list);
          },
          nb::arg("step"), nb::arg("values"));
}

void defineDoor(nb::module_ &module) {
  nb::class_<Door>(module, "Door")
      .def(
          "__init__",
          [](Door *door, const std::string &artifact, const nb::dict &options) {
            LaunchOptions launch = readOptions(artifact, options);
            nb::gil_scoped_release release;
            new (door) Door(launch);
          },
          nb::arg("artifact"), nb::arg("options"))
      .def_prop_ro("rank", &Door::rank)
      .def_prop_ro("ranks", &Door::ranks)
      .def_prop_ro("world_size", &Door::worldSize)
      .def_prop_ro("data_parallel", &Door::dataParallel)
      .def_prop_ro("data_parallel_here", &Door::dataParallelHere)
      .def_prop_ro("data_rank", &Door::dataRank)
      .def_prop_ro("micro_batches", &Door::microBatches)
      .def_prop_ro("is_training", &Door::isTraining)
      .def_prop_ro("is_open", &Door::isOpen)
      .def_prop_ro("steps_done", &Door::stepsDone)
      .def_prop_ro("outputs", &Door::outputs)
      .def_prop_ro("inputs",
                   [](const Door &door) {
                     nb::list list;
                     for (const DoorInput &input : door.inputs())
                       list.append(nb::make_tuple(input.name, input.dtype,
                                                  input.shapes));
                     return list;
                   })
      .def_prop_ro("memory", memory)
      .def_prop_ro("states",
                   [](const Door &door) {
                     nb::list list;
                     for (const DoorState &state : door.states())
                       list.append(nb::make_tuple(state.names, state.dtype,
                                                  state.shape));
                     return list;
                   })
      .def("step", step, nb::arg("batch"))
      .def("evaluate", evaluate, nb::arg("batch"))
      .def("evaluate_files", evaluateFiles)
      .def("find_greatest", &Door::findGreatest, nb::arg("number"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("hold", hold, nb::arg("name"), nb::arg("tensor"))
      .def("save", &Door::save, nb::arg("folder"), nb::arg("keep"),
           nb::arg("wait"), nb::call_guard<nb::gil_scoped_release>())
      .def("load", &Door::load, nb::arg("path"), nb::arg("is_own"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("export_weights", exportWeights, nb::arg("path"),
           nb::arg("shard_bytes"), nb::arg("what") = "all",
           nb::call_guard<nb::gil_scoped_release>())
      .def("close", &Door::close, nb::arg("reason"),
           nb::call_guard<nb::gil_scoped_release>());
}

} // namespace

NB_MODULE(_native, module) {
  nb::register_exception_translator(
      [](const std::exception_ptr &exception, void *) {
        try {
          std::rethrow_exception(exception);
        } catch (const Error &error) {
          raise(error);
        }
      });
  defineFunctions(module);
  defineDoor(module);
}
