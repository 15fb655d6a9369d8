// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/rounds/algorithm.h"

#include <algorithm>
#include <array>
#include <bit>

#include "lockstep/base/fail.h"
#include "lockstep/collectives/shares.h"

// Rings, halving and doubling, Bruck's algorithm and binomial trees are as in R. Thakur, R. Rabenseifner and
// W. Gropp, "Optimization of Collective Communication Operations in MPICH" (2005).
namespace lockstep::collectives {
namespace {

constexpr Area kIn = Area::kInput, kOut = Area::kOutput, kScratch = Area::kScratch, kPartial = Area::kPartial,
               kReceived = Area::kReceived;
constexpr int kWindow = 16;  ///< Partners at a time in an all-to-all.

int log2_up(int value) { return std::bit_width(static_cast<unsigned>(value - 1)); }

/// Parameters and helpers of all algorithms.
class Base : public Schedule {
 public:
  explicit Base(const Exchange& e) : rank_(e.rank), n_(e.size), bytes_(e.bytes), root_(e.root) {}

 protected:
  int around(int rank) const { return (rank % n_ + n_) % n_; }
  std::size_t part(int rank) const { return static_cast<std::size_t>(rank) * bytes_; }
  std::size_t times(std::size_t count) const { return count * bytes_; }
  /// Piece `number` of the `of` pieces of `bytes_`.
  Share piece(int number, int of) const {
    return share_of(static_cast<std::size_t>(number), static_cast<std::size_t>(of), bytes_);
  }
  /// Calls `each(first, parts, bytes before)` for the one or two stretches of `count` participants up to
  /// `last`.
  template <class Each>
  void run_of(int last, int count, Each each) const {
    const int first = last - count + 1;
    if (first >= 0) return each(first, count, std::size_t{0});
    each(n_ + first, -first, std::size_t{0});
    each(0, last + 1, times(static_cast<std::size_t>(-first)));
  }
  static void message(std::vector<RoundMessage>& to, int peer, Area area, const Share& share) {
    if (share.size != 0) to.push_back({peer, {area, share.begin}, share.size});
  }

  const int rank_, n_;
  const std::size_t bytes_;
  const int root_;
};

// --- all-reduce ---

class DirectAllReduce : public Base {
 public:
  using Base::Base;
  int rounds() const override { return 1; }
  std::size_t scratch_bytes() const override { return times(static_cast<std::size_t>(n_)); }
  void write(int, Round& to) const override {
    Sum sum{{}, {kOut, 0}, bytes_};
    for (int peer = 0; peer < n_; ++peer) {
      sum.sources.push_back(peer == rank_ ? Place{kIn, 0} : Place{kScratch, part(peer)});
      if (peer == rank_) continue;
      to.receives.push_back({peer, {kScratch, part(peer)}, bytes_});
    }
    for (int i = 1; i < n_; ++i) to.sends.push_back({around(rank_ + i), {kIn, 0}, bytes_});
    to.sums.push_back(std::move(sum));
  }
};

/// A reduction in which each participant has a term for each of its blocks.
class PairwiseReduction : public Base {
 public:
  explicit PairwiseReduction(const Exchange& e) : Base(e), blocks_(e.blocks) {}

 protected:
  int blocks(int rank) const {
    return blocks_ == nullptr ? 1 : static_cast<int>(blocks_->blocks[static_cast<std::size_t>(rank)].size());
  }
  int all_blocks() const { return blocks_ == nullptr ? n_ : static_cast<int>(blocks_->sources.size()); }
  /// The sum of all blocks, of which `place(rank, block)` says where they are.
  template <class PlaceOf>
  Sum sum_of_all(PlaceOf place, const Place& to, std::size_t bytes) const {
    Sum sum{{}, to, bytes, blocks_ == nullptr ? nullptr : &blocks_->tree};
    for (int i = 0; i < all_blocks(); ++i) {
      const HostBlocks::Source source =
          blocks_ == nullptr ? HostBlocks::Source{i, 0} : blocks_->sources[static_cast<std::size_t>(i)];
      sum.sources.push_back(place(source.host, source.block));
    }
    return sum;
  }
  /// The number of a block among those of all participants.
  std::size_t number(int rank, int block) const {
    return static_cast<std::size_t>(
        blocks_ == nullptr ? rank : blocks_->before[static_cast<std::size_t>(rank)] + block);
  }

 private:
  const HostBlocks* const blocks_;
};

class PairwiseAllReduce : public PairwiseReduction {
 public:
  using PairwiseReduction::PairwiseReduction;
  int rounds() const override { return 2; }
  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(all_blocks()) * own().size; }
  void write(int round, Round& to) const override {
    if (round == 0) {
      const auto place = [&](int rank, int block) {
        return rank == rank_ ? Place{kIn, part(block) + own().begin}
                             : Place{kScratch, number(rank, block) * own().size};
      };
      for (int i = 0; i < n_; ++i)
        for (int block = 0; block < blocks(i) && i != rank_; ++block)
          message(to.receives, i, kScratch, {number(i, block) * own().size, own().size});
      for (int i = 1; i < n_; ++i) {
        const int peer = around(rank_ + i);
        const Share theirs = piece(peer, n_);
        for (int block = 0; block < blocks(rank_); ++block)
          message(to.sends, peer, kIn, {part(block) + theirs.begin, theirs.size});
      }
      to.sums.push_back(sum_of_all(place, {kOut, own().begin}, own().size));
    } else {
      for (int i = 1; i < n_; ++i) {
        message(to.receives, around(rank_ - i), kOut, piece(around(rank_ - i), n_));
        message(to.sends, around(rank_ + i), kOut, own());
      }
    }
  }

 private:
  Share own() const { return piece(rank_, n_); }
};

/// Piece i is summed from participant i on, once around; its sum is passed around from participant i-1 on.
class RingAllReduce : public Base {
 public:
  using Base::Base;
  int rounds() const override { return 2 * (n_ - 1); }
  std::size_t scratch_bytes() const override { return piece(0, n_).size; }
  std::size_t partial_bytes() const override { return bytes_; }
  std::size_t received_bytes() const override { return piece(0, n_).size; }
  void write(int round, Round& to) const override {
    const int next = around(rank_ + 1), before = around(rank_ - 1);
    if (round < n_ - 1) {
      const Share sent = piece(around(rank_ - round), n_), summed = piece(around(rank_ - round - 1), n_);
      const Area from = round == 0 ? kScratch : kReceived, into = round == n_ - 2 ? kOut : kPartial;
      message(to.sends, next, round == 0 ? kIn : kPartial, sent);
      message(to.receives, before, from, {0, summed.size});
      to.sums.push_back({{{from, 0}, {kIn, summed.begin}}, {into, summed.begin}, summed.size});
    } else {
      const int back = round - (n_ - 1);
      message(to.sends, next, kOut, piece(around(rank_ + 1 - back), n_));
      message(to.receives, before, kOut, piece(around(rank_ - back), n_));
    }
  }
};

/// Participants beyond the largest power of two first give theirs to a partner, and last get its result.
class PowerOfTwoAllReduce : public Base {
 public:
  explicit PowerOfTwoAllReduce(const Exchange& e)
      : Base(e), power_(std::bit_floor(static_cast<unsigned>(n_))), steps_(log2_up(power_)) {}
  int rounds() const override { return inner_rounds() + (folds() ? 2 : 0); }
  std::size_t scratch_bytes() const override { return bytes_; }
  std::size_t partial_bytes() const override { return bytes_; }
  std::size_t received_bytes() const override { return bytes_; }
  void write(int round, Round& to) const override {
    if (folds() && round == 0) return fold(to);
    if (folds() && round == rounds() - 1) return unfold(to);
    if (rank_ < power_) write_inner(round - (folds() ? 1 : 0), to);
  }

 protected:
  virtual int inner_rounds() const = 0;
  virtual void write_inner(int round, Round& to) const = 0;
  /// Where a participant's values are at the beginning of this inner round, and where its partner receives
  /// them.
  Area own_area(int rank, int round) const { return round > 0 || rank + power_ < n_ ? kPartial : kIn; }
  Area area_for(int partner, int round) const {
    return own_area(partner, round) == kIn ? kScratch : kReceived;
  }
  /// Where the sums of this inner round go.
  Area into(int round) const { return round == steps_ - 1 ? kOut : kPartial; }

  const int power_, steps_;

 private:
  bool folds() const { return power_ != n_; }
  void fold(Round& to) const {
    if (rank_ >= power_) {
      to.sends.push_back({rank_ - power_, {kIn, 0}, bytes_});
    } else if (rank_ + power_ < n_) {
      to.receives.push_back({rank_ + power_, {kScratch, 0}, bytes_});
      to.sums.push_back({{{kIn, 0}, {kScratch, 0}}, {kPartial, 0}, bytes_});
    }
  }
  void unfold(Round& to) const {
    if (rank_ >= power_) {
      to.receives.push_back({rank_ - power_, {kOut, 0}, bytes_});
    } else if (rank_ + power_ < n_) {
      to.sends.push_back({rank_ + power_, {kOut, 0}, bytes_});
    }
  }
};

class DoublingAllReduce : public PowerOfTwoAllReduce {
 public:
  using PowerOfTwoAllReduce::PowerOfTwoAllReduce;

 private:
  int inner_rounds() const override { return steps_; }
  void write_inner(int round, Round& to) const override {
    const int partner = rank_ ^ (1 << round);
    const Place own{own_area(rank_, round), 0}, theirs{area_for(partner, round), 0};
    to.sends.push_back({partner, own, bytes_});
    to.receives.push_back({partner, theirs, bytes_});
    // Both add in one order, so that they get the same bits.
    to.sums.push_back(
        {rank_ < partner ? std::vector{own, theirs} : std::vector{theirs, own}, {into(round), 0}, bytes_});
  }
};

class HalvingAllReduce : public PowerOfTwoAllReduce {
 public:
  using PowerOfTwoAllReduce::PowerOfTwoAllReduce;

 private:
  int inner_rounds() const override { return 2 * steps_; }
  void write_inner(int round, Round& to) const override {
    if (round < steps_) {
      const int partner = rank_ ^ (power_ >> (round + 1));
      const Area from = own_area(rank_, round), received = area_for(partner, round);
      const Share kept = range(rank_, round + 1), given = range(partner, round + 1);
      message(to.sends, partner, from, given);
      message(to.receives, partner, received, {0, kept.size});
      const Place own{from, kept.begin}, theirs{received, 0};
      to.sums.push_back({rank_ < partner ? std::vector{own, theirs} : std::vector{theirs, own},
                         {into(round), kept.begin},
                         kept.size});
    } else {
      const int depth = 2 * steps_ - round;
      const int partner = rank_ ^ (power_ >> depth);
      message(to.sends, partner, kOut, range(rank_, depth));
      message(to.receives, partner, kOut, range(partner, depth));
    }
  }
  /// The pieces of the participants whose numbers agree with `rank` in the first `depth` bits.
  Share range(int rank, int depth) const {
    const int width = power_ >> depth, first = rank / width * width;
    const Share begin = piece(first, power_), last = piece(first + width - 1, power_);
    return {begin.begin, last.begin + last.size - begin.begin};
  }
};

// --- reduce-scatter ---

class PairwiseReduceScatter : public PairwiseReduction {
 public:
  using PairwiseReduction::PairwiseReduction;
  int rounds() const override { return 1; }
  std::size_t scratch_bytes() const override { return times(static_cast<std::size_t>(all_blocks())); }
  void write(int, Round& to) const override {
    const auto place = [&](int rank, int block) {
      return rank == rank_ ? Place{kIn, part(rank * blocks(rank) + block)}
                           : Place{kScratch, times(number(rank, block))};
    };
    for (int peer = 0; peer < n_; ++peer) {
      if (peer != rank_)
        to.receives.push_back({peer, place(peer, 0), times(static_cast<std::size_t>(blocks(peer)))});
    }
    for (int i = 1; i < n_; ++i) {
      const int peer = around(rank_ + i), own = blocks(rank_);
      to.sends.push_back({peer, {kIn, part(peer * own)}, times(static_cast<std::size_t>(own))});
    }
    to.sums.push_back(sum_of_all(place, {kOut, 0}, bytes_));
  }
};

/// Part i is summed from participant i+1 on, and reaches i last.
class RingReduceScatter : public Base {
 public:
  using Base::Base;
  int rounds() const override { return n_ - 1; }
  std::size_t scratch_bytes() const override { return times(1); }
  std::size_t received_bytes() const override { return times(2); }
  void write(int round, Round& to) const override {
    const int sent = around(rank_ - 1 - round), summed = around(rank_ - 2 - round);
    const Place received = round == 0 ? Place{kScratch, 0} : slot(round);
    to.sends.push_back({around(rank_ + 1), round == 0 ? Place{kIn, part(sent)} : slot(round - 1), bytes_});
    to.receives.push_back({around(rank_ - 1), received, bytes_});
    to.sums.push_back(
        {{received, {kIn, part(summed)}}, round == n_ - 2 ? Place{kOut, 0} : slot(round), bytes_});
  }

 private:
  Place slot(int round) const { return {kReceived, part(round % 2)}; }
};

/// Bruck's all-gather in reverse: data that is received there is summed and sent here. Each participant has
/// sums of the parts of a run of participants up to itself, which gets shorter in each round.
class BruckReduceScatter : public Base {
 public:
  using Base::Base;
  int rounds() const override { return log2_up(n_); }
  std::size_t received_bytes() const override { return times(2 * static_cast<std::size_t>(n_)); }
  void write(int round, Round& to) const override {
    // Sums are in the first half, that of participant i at i.
    if (round == 0) to.copies.push_back({{kIn, 0}, {kReceived, 0}, times(static_cast<std::size_t>(n_))});
    const int distance = 1 << (rounds() - 1 - round), count = std::min(distance, n_ - distance);
    run_of(around(rank_ - distance), count, [&](int first, int parts, std::size_t) {
      to.sends.push_back(
          {around(rank_ - distance), {kReceived, part(first)}, times(static_cast<std::size_t>(parts))});
    });
    run_of(rank_, count, [&](int first, int parts, std::size_t before) {
      const Place theirs{kReceived, times(static_cast<std::size_t>(n_)) + before},
          own{kReceived, part(first)};
      const std::size_t bytes = times(static_cast<std::size_t>(parts));
      to.receives.push_back({around(rank_ + distance), theirs, bytes});
      to.sums.push_back({{own, theirs}, own, bytes});
    });
    if (round == rounds() - 1) to.sums.push_back({{{kReceived, part(rank_)}}, {kOut, 0}, bytes_});
  }
};

// --- all-gather ---

class PairwiseAllGather : public Base {
 public:
  using Base::Base;
  int rounds() const override { return 1; }
  void write(int, Round& to) const override {
    to.copies.push_back({{kIn, 0}, {kOut, part(rank_)}, bytes_});
    for (int i = 1; i < n_; ++i) {
      to.receives.push_back({around(rank_ - i), {kOut, part(around(rank_ - i))}, bytes_});
      to.sends.push_back({around(rank_ + i), {kIn, 0}, bytes_});
    }
  }
};

class RingAllGather : public Base {
 public:
  using Base::Base;
  int rounds() const override { return n_ - 1; }
  void write(int round, Round& to) const override {
    if (round == 0) to.copies.push_back({{kIn, 0}, {kOut, part(rank_)}, bytes_});
    to.sends.push_back({around(rank_ + 1), {kOut, part(around(rank_ - round))}, bytes_});
    to.receives.push_back({around(rank_ - 1), {kOut, part(around(rank_ - round - 1))}, bytes_});
  }
};

/// In round k each participant has the parts of the 2^k participants up to itself, and sends them to the one
/// at that distance.
class BruckAllGather : public Base {
 public:
  using Base::Base;
  int rounds() const override { return log2_up(n_); }
  void write(int round, Round& to) const override {
    if (round == 0) to.copies.push_back({{kIn, 0}, {kOut, part(rank_)}, bytes_});
    const int distance = 1 << round, count = std::min(distance, n_ - distance);
    run_of(rank_, count, [&](int first, int parts, std::size_t) {
      to.sends.push_back(
          {around(rank_ + distance), {kOut, part(first)}, times(static_cast<std::size_t>(parts))});
    });
    run_of(around(rank_ - distance), count, [&](int first, int parts, std::size_t) {
      to.receives.push_back(
          {around(rank_ - distance), {kOut, part(first)}, times(static_cast<std::size_t>(parts))});
    });
  }
};

// --- all-to-all ---

class PairwiseAllToAll : public Base {
 public:
  using Base::Base;
  int rounds() const override { return std::max(1, (n_ - 1 + kWindow - 1) / kWindow); }
  void write(int round, Round& to) const override {
    if (round == 0) to.copies.push_back({{kIn, part(rank_)}, {kOut, part(rank_)}, bytes_});
    for (int i = 1 + round * kWindow; i < std::min(n_, 1 + (round + 1) * kWindow); ++i) {
      const int to_whom = around(rank_ + i), from_whom = around(rank_ - i);
      to.receives.push_back({from_whom, {kOut, part(from_whom)}, bytes_});
      to.sends.push_back({to_whom, {kIn, part(to_whom)}, bytes_});
    }
  }
};

/// A part that must move by d participants makes the steps given by the digits of d in some base.
class DigitsAllToAll : public Base {
 public:
  DigitsAllToAll(const Exchange& e, int base) : Base(e), base_(base) {}
  int rounds() const override { return digits() + 1; }
  std::size_t scratch_bytes() const override { return times(3 * static_cast<std::size_t>(n_)); }
  void write(int round, Round& to) const override {
    if (round == 0) {
      for (int i = 0; i < n_; ++i) to.copies.push_back({{kIn, part(around(rank_ + i))}, at(0, i), bytes_});
    } else {
      int came = 0;
      each_going(round - 1, [&](int, int i) { to.copies.push_back({at(2, came++), at(0, i), bytes_}); });
    }
    if (round == rounds() - 1) {
      for (int i = 0; i < n_; ++i) to.copies.push_back({at(0, i), {kOut, part(around(rank_ - i))}, bytes_});
      return;
    }
    int count = 0, last = 0;
    each_going(round, [&](int distance, int i) {
      if (distance != last) {
        to.sends.push_back({around(rank_ + distance), at(1, count), 0});
        to.receives.push_back({around(rank_ - distance), at(2, count), 0});
        last = distance;
      }
      to.copies.push_back({at(0, i), at(1, count++), bytes_});
      to.sends.back().bytes += bytes_;
      to.receives.back().bytes += bytes_;
    });
  }

 private:
  int digits() const {
    int count = 0;
    for (std::int64_t reached = 1; reached < n_; reached *= base_) ++count;
    return count;
  }
  /// The distances of the parts in a round, in ascending order, with the parts of each.
  template <class Each>
  void each_going(int round, Each each) const {
    std::int64_t unit = 1;
    for (int i = 0; i < round; ++i) unit *= base_;
    for (std::int64_t distance = unit; distance < unit * base_ && distance < n_; distance += unit)
      for (std::int64_t first = distance; first < n_; first += unit * base_)
        for (std::int64_t i = first; i < std::min<std::int64_t>(first + unit, n_); ++i)
          each(static_cast<int>(distance), static_cast<int>(i));
  }
  Place at(int which, int number) const { return {kScratch, part(which * n_ + number)}; }

  const int base_;
};

class BruckAllToAll : public DigitsAllToAll {
 public:
  explicit BruckAllToAll(const Exchange& e) : DigitsAllToAll(e, 2) {}
};

/// With the largest base, a power of two, for which each participant has at most 62 partners: these include
/// those at the distances 1, 2, 4, …, to which other algorithms connect anyway.
class WideBruckAllToAll : public DigitsAllToAll {
 public:
  explicit WideBruckAllToAll(const Exchange& e)
      : DigitsAllToAll(e, e.size <= 64       ? 4
                          : e.size <= 256    ? 16
                          : e.size <= 16'384 ? 8
                                             : 4) {}
};

// --- broadcast ---

class DirectBroadcast : public Base {
 public:
  using Base::Base;
  int rounds() const override { return 1; }
  void write(int, Round& to) const override {
    if (rank_ != root_) {
      to.receives.push_back({root_, {kOut, 0}, bytes_});
      return;
    }
    to.copies.push_back({{kIn, 0}, {kOut, 0}, bytes_});
    for (int i = 1; i < n_; ++i) to.sends.push_back({around(rank_ + i), {kIn, 0}, bytes_});
  }
};

class TreeBroadcast : public Base {
 public:
  using Base::Base;
  int rounds() const override { return log2_up(n_); }
  void write(int round, Round& to) const override {
    const int place = around(rank_ - root_), distance = 1 << round;
    if (round == 0 && place == 0) to.copies.push_back({{kIn, 0}, {kOut, 0}, bytes_});
    if (place < distance && place + distance < n_) {
      to.sends.push_back({around(rank_ + distance), {kOut, 0}, bytes_});
    } else if (place >= distance && place < 2 * distance) {
      to.receives.push_back({around(rank_ - distance), {kOut, 0}, bytes_});
    }
  }
};

/// The root's pieces are sent down a binomial tree, so that each participant gets its own; then they are
/// gathered as in Bruck's all-gather. Positions are counted from the root.
class ScatterBruckBroadcast : public Base {
 public:
  using Base::Base;
  int rounds() const override { return 2 * log2_up(n_); }
  void write(int round, Round& to) const override {
    const int steps = log2_up(n_), place = around(rank_ - root_);
    if (round < steps) {
      if (round == 0 && place == 0) to.copies.push_back({{kIn, 0}, {kOut, 0}, bytes_});
      // A participant with the pieces of the next 2 * distance positions sends the second half of them.
      const int distance = 1 << (steps - 1 - round);
      if (place % (2 * distance) == 0 && place + distance < n_) {
        message(to.sends, around(rank_ + distance), kOut, pieces(place + distance, distance));
      } else if (place % (2 * distance) == distance) {
        message(to.receives, around(rank_ - distance), kOut, pieces(place, distance));
      }
      return;
    }
    const int distance = 1 << (round - steps), count = std::min(distance, n_ - distance);
    const int receiver = around(place + distance), sender = around(place - distance);
    // The root has all.
    if (receiver != 0) {
      run_of(place, count, [&](int first, int parts, std::size_t) {
        message(to.sends, around(rank_ + distance), kOut, pieces(first, parts));
      });
    }
    if (place != 0) {
      run_of(sender, count, [&](int first, int parts, std::size_t) {
        message(to.receives, around(rank_ - distance), kOut, pieces(first, parts));
      });
    }
  }

 private:
  Share pieces(int first, int count) const {
    const int last = std::min(first + count, n_) - 1;
    const Share begin = piece(first, n_), end = piece(last, n_);
    return {begin.begin, end.begin + end.size - begin.begin};
  }
};

template <class T>
std::unique_ptr<Schedule> make(const Exchange& exchange) {
  return std::make_unique<T>(exchange);
}

struct AlgorithmEntry {
  Kind kind;
  Algorithm algorithm;
  std::unique_ptr<Schedule> (*make)(const Exchange&);
};
constexpr std::array kEntries = {
    AlgorithmEntry{Kind::kAllReduce, Algorithm::kDirect, make<DirectAllReduce>},
    AlgorithmEntry{Kind::kAllReduce, Algorithm::kPairwise, make<PairwiseAllReduce>},
    AlgorithmEntry{Kind::kAllReduce, Algorithm::kRing, make<RingAllReduce>},
    AlgorithmEntry{Kind::kAllReduce, Algorithm::kRecursiveDoubling, make<DoublingAllReduce>},
    AlgorithmEntry{Kind::kAllReduce, Algorithm::kHalvingDoubling, make<HalvingAllReduce>},
    AlgorithmEntry{Kind::kReduceScatter, Algorithm::kPairwise, make<PairwiseReduceScatter>},
    AlgorithmEntry{Kind::kReduceScatter, Algorithm::kRing, make<RingReduceScatter>},
    AlgorithmEntry{Kind::kReduceScatter, Algorithm::kBruck, make<BruckReduceScatter>},
    AlgorithmEntry{Kind::kAllGather, Algorithm::kPairwise, make<PairwiseAllGather>},
    AlgorithmEntry{Kind::kAllGather, Algorithm::kRing, make<RingAllGather>},
    AlgorithmEntry{Kind::kAllGather, Algorithm::kBruck, make<BruckAllGather>},
    AlgorithmEntry{Kind::kAllToAll, Algorithm::kPairwise, make<PairwiseAllToAll>},
    AlgorithmEntry{Kind::kAllToAll, Algorithm::kBruck, make<BruckAllToAll>},
    AlgorithmEntry{Kind::kAllToAll, Algorithm::kWideBruck, make<WideBruckAllToAll>},
    AlgorithmEntry{Kind::kBroadcast, Algorithm::kDirect, make<DirectBroadcast>},
    AlgorithmEntry{Kind::kBroadcast, Algorithm::kTree, make<TreeBroadcast>},
    AlgorithmEntry{Kind::kBroadcast, Algorithm::kScatterBruck, make<ScatterBruckBroadcast>},
};

const AlgorithmEntry* find(Algorithm algorithm, Kind kind) {
  const auto it = std::ranges::find_if(kEntries, [&](const AlgorithmEntry& entry) {
    return entry.algorithm == algorithm && entry.kind == kind;
  });
  return it == kEntries.end() ? nullptr : it;
}

/// The algorithm of a single participant.
class Alone : public Base {
 public:
  using Base::Base;
  int rounds() const override { return 1; }
  void write(int, Round& to) const override { to.copies.push_back({{kIn, 0}, {kOut, 0}, bytes_}); }
};

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  constexpr std::array kNames = {"direct", "pairwise",   "ring", "recursive-doubling", "halving-doubling",
                                 "bruck",  "wide-bruck", "tree", "scatter-bruck"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

bool is_algorithm_of(Algorithm algorithm, Kind kind) { return find(algorithm, kind) != nullptr; }

std::unique_ptr<Schedule> make_schedule(Algorithm algorithm, const Exchange& exchange) {
  const AlgorithmEntry* entry = find(algorithm, exchange.kind);
  if (entry == nullptr) fail("{} has no algorithm {}", name_of(exchange.kind), name_of(algorithm));
  if (exchange.size == 1) return make<Alone>(exchange);
  return entry->make(exchange);
}

}  // namespace lockstep::collectives
