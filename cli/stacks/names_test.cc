// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/names.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(StackNames, ParametersAndReturnTypes_AreLeftOut) {
  EXPECT_EQ(function_name("_ZN8lockstep4meanERKNS_5ArrayE"), "lockstep::mean");
  EXPECT_EQ(short_name("void run(int (*)(char), std::vector<int>&&)"), "run");
  EXPECT_EQ(short_name("user::Model::step(int) const"), "user::Model::step");
  EXPECT_EQ(short_name("(anonymous namespace)::load(int)"), "load");
  EXPECT_EQ(short_name("a::(anonymous namespace)::load(b::(anonymous namespace)::C)"), "a::load");
  EXPECT_EQ(short_name("decltype (f(0)) g::call<int>(int)"), "g::call<int>");
}

TEST(StackNames, LongTemplateArguments_AreLeftOut) {
  EXPECT_EQ(function_name("_ZNSt6vectorISt6stringSaIS0_EE9push_backERKS0_"), "std::vector<...>::push_back");
  EXPECT_EQ(short_name("float mean<float>(float)"), "mean<float>");
  EXPECT_EQ(short_name("a<(b)1, std::function<void (int)> >::c<d<e>>::f()"), "a<...>::c<d<e>>::f");
  EXPECT_EQ(short_name("a<&(C::operator<(C)), 12345678>::f()"), "a<...>::f");
}

TEST(StackNames, Operators_KeepTheirSymbols) {
  EXPECT_EQ(short_name("bool std::operator< <char, int>(A, B)"), "std::operator< <char, int>");
  EXPECT_EQ(short_name("Stream& operator<<(Stream&, int)"), "operator<<");
  EXPECT_EQ(short_name("C::operator()(int) const"), "C::operator()");
  EXPECT_EQ(short_name("C::operator->() const"), "C::operator->");
  EXPECT_EQ(short_name("C::operator bool() const"), "C::operator bool");
  EXPECT_EQ(short_name("operator new(unsigned long)"), "operator new");
  EXPECT_EQ(short_name("my_operator(int)"), "my_operator");
}

TEST(StackNames, Lambdas_KeepTheirNumbers) {
  EXPECT_EQ(short_name("main::{lambda(ls::Array)#2}::operator()(ls::Array) const"),
            "main::{lambda#2}::operator()");
  EXPECT_EQ(
      short_name("train(int)::{lambda()#1}::operator()() const::{lambda(int)#1}::operator()(int) const"),
      "train::{lambda#1}::operator()::{lambda#1}::operator()");
}

TEST(StackNames, AShardMapFunctionInJit_IsShortened) {
  EXPECT_EQ(
      function_name("_ZN8lockstep3jitIZNS_9shard_mapIZ4mainEUlNS_5ArrayEE0_EEDaOT_NS_15ShardMapOptionsESt15s"
                    "ource_locationEUlDpRKT_E0_EENS_6JittedINSt5decayIS4_E4typeEEES5_NS_10JitOptionsES7_"),
      "lockstep::jit<...>");
}

TEST(StackNames, NamesThatAreNotMangledCxx_AreNotDemangled) {
  EXPECT_EQ(function_name("main"), "main");
  EXPECT_EQ(function_name("pthread_cond_wait@@GLIBC_2.3.2"), "pthread_cond_wait");
  EXPECT_EQ(function_name("_Znot a mangled name"), "_Znot a mangled name");
  EXPECT_EQ(function_name("_ZN4user4spinEv.part.0"), "user::spin");
}

TEST(StackNames, GlueFunctionsOfTheStandardLibrary_AreRecognized) {
  EXPECT_TRUE(is_glue("std::_Function_handler<...>::_M_invoke"));
  EXPECT_TRUE(is_glue("std::thread::_State_impl<...>::_M_run"));
  EXPECT_TRUE(is_glue("__libc_start_main"));
  EXPECT_FALSE(is_glue("main"));
  EXPECT_FALSE(is_glue("std::sort<...>"));
  EXPECT_FALSE(is_glue(""));
}

}  // namespace
}  // namespace lockstep::cli
