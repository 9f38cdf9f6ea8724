#include "cc/support/random_streams.h"

#include <gtest/gtest.h>

#include <limits>

namespace tensorbow {
namespace {

using Position = RandomStreams::Position;

TEST(RandomStreams, ReservesWhatComesNext) {
  RandomStreams streams;
  const auto stream = streams.FindOrCreate("a", {7, {0, 9}});
  EXPECT_EQ(stream->Reserve(256).counter[0], 0u);
  EXPECT_EQ(stream->Reserve(512).counter[0], 256u);
  EXPECT_EQ(stream->Reserve(0).counter[0], 768u);
  EXPECT_EQ(streams.Get().at("a").key, 7u);
  EXPECT_EQ(streams.Get().at("a").counter[1], 9u);
}

TEST(RandomStreams, CarriesIntoTheUpperHalfOfTheCounter) {
  RandomStreams streams;
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const auto stream = streams.FindOrCreate("a", {0, {kMax - 1, 5}});
  stream->Reserve(4);
  EXPECT_EQ(streams.Get().at("a").counter, (std::array<uint64_t, 2>{2, 6}));
}

TEST(RandomStreams, AStreamThatWasSetFirstIsNotStartedAnew) {
  RandomStreams streams;
  streams.Set({{"a", {1, {512, 3}}}});
  const auto stream = streams.FindOrCreate("a", {2, {0, 4}});
  const Position position = stream->Reserve(1);
  EXPECT_EQ(position.key, 1u);
  EXPECT_EQ(position.counter, (std::array<uint64_t, 2>{512, 3}));
}

TEST(RandomStreams, SetMovesStreamsInUseAndTakesOthersBackToTheirStart) {
  RandomStreams streams;
  const auto a = streams.FindOrCreate("a", {1, {0, 0}});
  const auto b = streams.FindOrCreate("b", {2, {0, 0}});
  a->Reserve(100);
  b->Reserve(100);
  streams.Set({{"a", {1, {50, 0}}}});
  EXPECT_EQ(a->Reserve(1).counter[0], 50u);
  EXPECT_EQ(b->Reserve(1).counter[0], 0u);
}

TEST(RandomStreams, OneStreamForEachName) {
  RandomStreams streams;
  const auto stream = streams.FindOrCreate("a", {1, {0, 0}});
  EXPECT_EQ(stream, streams.FindOrCreate("a", {1, {0, 0}}));
  EXPECT_NE(stream, streams.FindOrCreate("b", {1, {0, 0}}));
}

}  // namespace
}  // namespace tensorbow
