// The guarantees of every transport between hosts to the network engine, as tests of two ranks.
#pragma once

#include <vector>

#include "tests/transports/conformance/traffic.h"

namespace tutti::testing {

using Makers = std::vector<Maker>;  // one per rank

void ARankThatDoesNotLookIsWaitedFor(const Makers& makers);
void WhatComesWakesWhoSleeps(const Makers& makers);
void FailuresAndFarewellsAreHeard(const Makers& makers);
void AKilledPeerIsMissedAtOnce(const Makers& makers);
void APeerWithAnotherSecretIsNotBelieved(const Makers& makers);

}  // namespace tutti::testing
