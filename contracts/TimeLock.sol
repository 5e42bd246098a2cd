// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Time between announcing and doing what could take everything.
abstract contract TimeLock {
    /// Seconds for which a scheduled change stays executable, so that none is forgotten and open.
    uint256 public constant EXECUTE_WINDOW = 14 days;

    /// Seconds between announcing a change and being able to carry it out.
    uint32 public timelock;

    error NothingScheduled();
    error TooEarly(uint256 executableAt);
    error TooLate(uint256 expiredAt);

    constructor(uint32 timelock_) {
        timelock = timelock_;
    }

    function _dueFromNow() internal view returns (uint64) {
        return uint64(block.timestamp + timelock);
    }

    /// Reverts unless `due` (seconds since 1970; 0: nothing is scheduled) has come and not lapsed.
    function _requireDue(uint256 due) internal view {
        if (due == 0) revert NothingScheduled();
        if (block.timestamp < due) revert TooEarly(due);
        if (block.timestamp > due + EXECUTE_WINDOW) revert TooLate(due + EXECUTE_WINDOW);
    }
}
