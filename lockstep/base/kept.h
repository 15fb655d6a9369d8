// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

/// Sets the maximal number of objects in each KeptByUse of the process; at least 1.
void set_max_kept(std::size_t most);
std::size_t max_kept();

/// The base class of objects in a KeptByUse. Thread-safe.
class Kept {
 public:
  /// Call it when the object is used.
  void touch() const {
    const std::uint64_t now = clock().load(std::memory_order_relaxed);
    if (last_use_.load(std::memory_order_relaxed) != now) last_use_.store(now, std::memory_order_relaxed);
  }
  std::uint64_t last_use() const { return last_use_.load(std::memory_order_relaxed); }

  /// Whether it is in the cache: false before it was added and after it was dropped.
  bool is_kept() const { return kept_.load(std::memory_order_relaxed); }

  /// Counts added objects. Two uses without an addition in between count as simultaneous.
  static std::atomic<std::uint64_t>& clock();

 private:
  template <class T>
  friend class KeptByUse;
  void set_kept(bool kept) const { kept_.store(kept, std::memory_order_relaxed); }

  mutable std::atomic<std::uint64_t> last_use_ = 0;
  mutable std::atomic<bool> kept_ = false;
};

/// Drops everything in each KeptByUse of the process.
void clear_all_kept();

/// A KeptByUse of any type, in the list of clear_all_kept().
class KeptCache {
 public:
  KeptCache();
  virtual ~KeptCache();
  KeptCache(const KeptCache&) = delete;
  KeptCache& operator=(const KeptCache&) = delete;

  /// Drops all.
  virtual void clear() = 0;
};

/// A cache by hash of objects that are expensive to make. If there are more than max_kept(), the least
/// recently used ones are dropped; holders may continue to use a dropped one. T derives from Kept.
/// Thread-safe.
template <class T>
class KeptByUse final : public KeptCache {
 public:
  /// The object with this hash for which `is(object)` is true, or null. Counts as a use.
  template <class Is>
  std::shared_ptr<T> find(std::size_t hash, Is&& is) const {
    std::lock_guard lock(mutex_);
    return found(hash, is);
  }

  /// Adds the object and returns it; if another thread has added one meanwhile, returns that one.
  template <class Is>
  std::shared_ptr<T> add(std::size_t hash, std::shared_ptr<T> made, Is&& is) {
    std::vector<std::shared_ptr<T>> dropped;  // destroyed without holding the lock
    std::lock_guard lock(mutex_);
    if (auto other = found(hash, is)) return other;
    Kept::clock().fetch_add(1, std::memory_order_relaxed);
    made->touch();
    made->set_kept(true);
    all_.emplace(hash, made);
    if (const std::size_t most = max_kept(); all_.size() > most)
      dropped = take_oldest(all_.size() - most + most / 16);
    return made;
  }

  void erase(std::size_t hash, const T* thing) {
    std::shared_ptr<T> dropped;
    std::lock_guard lock(mutex_);
    auto [begin, end] = all_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (it->second.get() != thing) continue;
      dropped = std::move(it->second);
      dropped->set_kept(false);
      all_.erase(it);
      return;
    }
  }

  void clear() override {
    std::unordered_multimap<std::size_t, std::shared_ptr<T>> dropped;
    std::lock_guard lock(mutex_);
    for (const auto& each : all_) each.second->set_kept(false);
    dropped.swap(all_);
  }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return all_.size();
  }

 private:
  template <class Is>
  std::shared_ptr<T> found(std::size_t hash, Is& is) const {
    auto [begin, end] = all_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
      if (!is(std::as_const(*it->second))) continue;
      it->second->touch();
      return it->second;
    }
    return nullptr;
  }

  std::vector<std::shared_ptr<T>> take_oldest(std::size_t count) {
    using Place = decltype(all_.begin());
    std::vector<std::pair<std::uint64_t, Place>> by_age;
    for (auto it = all_.begin(); it != all_.end(); ++it) by_age.emplace_back(it->second->last_use(), it);
    std::nth_element(by_age.begin(), by_age.begin() + static_cast<std::ptrdiff_t>(count), by_age.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::shared_ptr<T>> taken;
    for (std::size_t i = 0; i < count; ++i) {
      taken.push_back(std::move(by_age[i].second->second));
      taken.back()->set_kept(false);
      all_.erase(by_age[i].second);
    }
    return taken;
  }

  mutable std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::shared_ptr<T>> all_;
};

}  // namespace lockstep
