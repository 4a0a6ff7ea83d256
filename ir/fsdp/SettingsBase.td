//===- SettingsBase.td - What attributes of settings are made of -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SETTINGS_BASE_TD
#define FSDP_SETTINGS_BASE_TD

include "Dialect.td"
include "Enums.td"
include "mlir/IR/AttrTypeBase.td"

// Parameters that have their defaults do not print.
class Fsdp_Struct<string name, string attrMnemonic>
    : AttrDef<Fsdp_Dialect, name> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

// Stands on the module under its own name: `fsdp.step = #fsdp.step<...>`.
class Fsdp_Setting<string name, string attrMnemonic>
    : Fsdp_Struct<name, attrMnemonic>;

class Fsdp_Count<string default>
    : DefaultValuedParameter<"int64_t", default>;
class Fsdp_Flag<string default> : DefaultValuedParameter<"bool", default>;
class Fsdp_Choice<string enum, string default>
    : DefaultValuedParameter<"::fsdp::" # enum, "::fsdp::" # enum # "::" # default>;

// Of type f64, which goes without saying.
class Fsdp_Real<string default>
    : DefaultValuedParameter<"::mlir::FloatAttr",
                             "::fsdp::getReal($_ctxt, " # default # ")"> {
  let parser = "::fsdp::parseReal($_parser)";
  let printer = "$_printer.printFloat($_self.getValue())";
}
def Fsdp_Number : OptionalParameter<"::mlir::FloatAttr"> {
  let parser = "::fsdp::parseReal($_parser)";
  let printer = "$_printer.printFloat($_self.getValue())";
}

// Numbers of a row, by their names.
def Fsdp_Numbers : OptionalParameter<"::mlir::DictionaryAttr"> {
  let printer = "::fsdp::printGiven($_printer, $_self)";
}

// A row of a table in support, by its name (Kinds.h).
class Fsdp_Row<string enum> : AttrOrTypeParameter<"::fsdp::" # enum, ""> {
  let parser = "::fsdp::parse" # enum # "($_parser)";
  let printer = "$_printer << ::fsdp::getFacts($_self).name";
}
class Fsdp_DefaultRow<string enum, string default> : Fsdp_Row<enum> {
  let defaultValue = "::fsdp::" # enum # "::" # default;
}

// Arrays whose elements are checked.
def Fsdp_Texts : OptionalParameter<"::mlir::ArrayAttr">;
def Fsdp_List : OptionalParameter<"::mlir::ArrayAttr">;

#endif // FSDP_SETTINGS_BASE_TD
