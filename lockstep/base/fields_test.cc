// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/fields.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace lockstep {
namespace {

/// As an Array, made of whatever there is, and of {}.
struct Handle {
  Handle() = default;
  Handle(double) {}
  Handle(int) {}
  std::shared_ptr<int> data;
};
enum class Kind { kOne };

struct None {};
struct One {
  std::vector<Handle> only;
};
struct StandardArrays {
  std::array<Handle, 3> a;
  Handle b;
  std::array<std::array<int, 2>, 2> c;
};
struct CArrays {
  Handle a[3];
  StandardArrays b[2];
  int n = 7;
  char text[70];
};
struct Mixed {
  std::map<std::string, Handle> map;
  std::tuple<Handle, int> tuple;
  std::optional<Handle> optional;
  None none;
  std::string text = "x";
  Kind kind = Kind::kOne;
  const bool fixed = true;
  CArrays inner;
};
struct Many {
  int a1, a2, a3, a4, a5, a6, a7, a8, b1, b2, b3, b4, b5, b6, b7, b8, c1, c2, c3, c4, c5, c6, c7, c8;
  int d1, d2, d3, d4, d5, d6, d7, d8, e1, e2, e3, e4, e5, e6, e7, e8, f1, f2, f3, f4, f5, f6, f7, f8;
  int g1, g2, g3, g4, g5, g6, g7, g8, h1, h2, h3, h4, h5, h6, h7;
};

static_assert(fields::count<None> == 0);
static_assert(fields::count<One> == 1);
static_assert(fields::count<StandardArrays> == 3);
static_assert(fields::count<const CArrays> == 4);
static_assert(fields::count<Mixed> == 8);
static_assert(fields::count<Many> == 63);

TEST(Fields, AreGivenInDeclarationOrderByReference) {
  CArrays x{};
  fields::apply(x, [](auto& a, auto& b, int& n, auto& text) {
    EXPECT_EQ(sizeof(a), 3 * sizeof(Handle));
    EXPECT_EQ(sizeof(b), 2 * sizeof(StandardArrays));
    EXPECT_EQ(n++, 7);
    text[1] = 'y';
  });
  EXPECT_EQ(x.n, 8);
  EXPECT_EQ(x.text[1], 'y');
  None none;
  EXPECT_EQ(fields::apply(none, [] { return 5; }), 5);
}

TEST(Fields, AStructOf63Members_GivesThemAll) {
  Many many{};
  many.h7 = 1;
  EXPECT_EQ(fields::apply(many, [](auto&... all) { return (all + ...); }), 1);
}

}  // namespace
}  // namespace lockstep
