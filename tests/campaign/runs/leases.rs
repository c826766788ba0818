//! Contenders once everything is healed: a leader comes in time, stays, and all of them name it.
//!
//! Must not know: what went wrong before.

use std::time::Duration;

use crate::faults::Schedule;
use crate::invariants::Invariant;
use crate::world::World;
use headcount_contender::ContenderTiming;
use headcount_sim::LeaseOptions;

/// The time of peace after which all must agree.
const QUIET: Duration = Duration::from_secs(8);

/// Returns the leases of this schedule, if nodes contend in it.
pub(super) fn options(seed: u64, schedule: &Schedule) -> Option<LeaseOptions> {
    let variation = &schedule.variation;
    let lease = Duration::from_millis([600, 1_000, 2_000][(seed / 4 % 3) as usize]);
    (variation.contenders > 0)
        .then(|| LeaseOptions { ..LeaseOptions::new(variation.contenders, ContenderTiming::of_lease(lease)) })
}

/// Returns the longest time for which a lease is vacant once everything is well: what stands in the database is seen
/// within a renewal interval, by a clock that may be one percent slow, and then waited for; and a look at the next one
/// is as far away.
pub(super) fn vacancy(timing: &ContenderTiming) -> Duration {
    timing.lease_duration * 102 / 100 + timing.renewal_interval + Duration::from_millis(100)
}

/// Returns the time after the healing in which earlier faults may still show: a leader whose row is lost or has expired
/// steps down once it notices, and another one is waited for.
pub(super) fn aftermath(timing: &ContenderTiming) -> Duration {
    (timing.lease_duration + timing.renewal_interval) * 3
}

/// Checks that the leases are led in time after the healing at `healed_at`, and that their leaders stay. Returns the
/// time from the healing to the first claim, if one had to begin.
pub(super) fn settle(world: &mut World, healed_at: Duration) -> Option<Duration> {
    let timing = world.options().leases.as_ref()?.timing;
    let leases = world.options().leases.as_ref()?.leases.clone();
    let contended_since = world.contended_since()?.max(healed_at);
    let deadline = contended_since + vacancy(&timing);
    world.run_until(deadline.max(healed_at + aftermath(&timing)));
    let mut led_after = None;
    for lease in &leases {
        let since = world.lease_led_since(healed_at, lease);
        // Whoever led before goes on, or somebody has begun to.
        let is_in_time =
            since.is_some_and(|since| since <= deadline) || since.is_none() && world.told_lease_leader().is_some();
        if !is_in_time && world.violations().is_empty() {
            let detail = format!("{lease}: contended for since {contended_since:.3?}, led since {since:.3?}");
            world.report(None, Invariant::LeaseIsLed, detail);
        }
        led_after = led_after.max(since.map(|since| since.saturating_sub(healed_at)));
    }
    stays(world);
    led_after
}

fn stays(world: &mut World) {
    if !world.violations().is_empty() {
        return;
    }
    let (leader, before) = (world.told_lease_leader(), world.leases_reached());
    world.run_for(QUIET);
    if !world.violations().is_empty() {
        return;
    }
    let after = world.leases_reached();
    let losses =
        (after.expired + after.rejected + after.resigned) - (before.expired + before.rejected + before.resigned);
    if leader.is_none() || losses > 0 || world.told_lease_leader() != leader {
        let detail = format!("{leader:?} led, {losses} claims ended, then {:?} did", world.told_lease_leader());
        return world.report(None, Invariant::LeaseLeaderStays, detail);
    }
    if let Some(difference) = world.lease_divergence() {
        world.report(None, Invariant::LeaseWordsAgree, difference);
    }
}
