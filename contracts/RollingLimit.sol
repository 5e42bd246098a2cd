// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// A limit in one storage word, so that a payment reads and writes it once. From the lowest bit:
/// `cap` (96 bits), `used` (96), `touched` (40, seconds since 1970), `isSet` (1).
type RollingLimit is uint256;

using RollingLimits for RollingLimit global;

/// @title Limits on what leaves within a window, refilled evenly.
/// @dev `used` decreases by the cap in force per window since `touched`. The cap in force is an
/// argument, because a limit that was never set takes it from another one.
library RollingLimits {
    uint256 internal constant MAX_CAP = type(uint96).max;

    uint256 private constant USED_AT = 96;
    uint256 private constant TOUCHED_AT = 192;
    uint256 private constant SET_AT = 232;

    function cap(RollingLimit limit) internal pure returns (uint256) {
        return RollingLimit.unwrap(limit) & MAX_CAP;
    }

    /// @return whether the admin ever set it, to 0 too.
    function isSet(RollingLimit limit) internal pure returns (bool) {
        return RollingLimit.unwrap(limit) >> SET_AT != 0;
    }

    /// @return what is used now, after the refill.
    function used(RollingLimit limit, uint256 capInForce, uint256 window)
        internal
        view
        returns (uint256)
    {
        uint256 word = RollingLimit.unwrap(limit);
        uint256 before = (word >> USED_AT) & MAX_CAP;
        // Nothing used leaks nothing; saves the division for a limit that was never touched.
        if (before == 0) return 0;
        uint256 touched = (word >> TOUCHED_AT) & type(uint40).max;
        uint256 refilled = (capInForce * (block.timestamp - touched)) / window;
        return before > refilled ? before - refilled : 0;
    }

    /// @dev `used_` must be at most MAX_CAP.
    function withUsed(RollingLimit limit, uint256 used_) internal view returns (RollingLimit) {
        uint256 word = RollingLimit.unwrap(limit);
        return RollingLimit.wrap(
            (word >> SET_AT << SET_AT) | (block.timestamp << TOUCHED_AT) | (used_ << USED_AT)
                | (word & MAX_CAP)
        );
    }

    /// @dev `cap_` and `used_` must be at most MAX_CAP.
    function create(uint256 cap_, uint256 used_) internal view returns (RollingLimit) {
        return RollingLimit.wrap(
            (1 << SET_AT) | (block.timestamp << TOUCHED_AT) | (used_ << USED_AT) | cap_
        );
    }
}
