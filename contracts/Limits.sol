// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessControlDefaultAdminRules} from
    "@openzeppelin/contracts/access/extensions/AccessControlDefaultAdminRules.sol";
import {ReentrancyGuardTransient} from
    "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Assets} from "./Assets.sol";
import {RollingLimit, RollingLimits} from "./RollingLimit.sol";
import {TimeLock} from "./TimeLock.sol";

/// @title What may leave the vault: per asset within a day, per contract, and per transaction.
/// @notice They bound what a stolen payer key can take. The admin sets them; raising one waits for
/// the time lock.
abstract contract Limits is AccessControlDefaultAdminRules, ReentrancyGuardTransient, TimeLock {
    struct PendingLimit {
        uint96 cap;
        uint64 due;
    }

    /// What one payment would leave of each of its limits. One per batch, reused for each payment.
    struct Charge {
        bytes32 key;
        RollingLimit left;
        bytes32 totalKey;
        RollingLimit totalLeft;
        bytes32 transactionKey;
        uint256 transactionSum;
    }

    // Kinds of limit. The first two are also the kinds of asset that `pay` accepts.
    /// What an ERC-20 token pays at most per WINDOW.
    uint8 public constant ERC20 = Assets.ERC20;
    /// What one ERC-1155 id pays at most per WINDOW.
    uint8 public constant ERC1155 = Assets.ERC1155;
    /// What each id of an ERC-1155 contract pays at most per WINDOW if it has no limit of its own.
    uint8 public constant ERC1155_DEFAULT = 2;
    /// What all ids of a contract together pay at most per WINDOW. Unset: the same as the default.
    uint8 public constant ERC1155_TOTAL = 3;
    /// What one transaction pays at most of an ERC-20 token. Unset: half of its limit.
    uint8 public constant ERC20_TRANSACTION = 4;
    /// What one transaction pays at most of all ids of a contract. Unset: half of the total.
    uint8 public constant ERC1155_TRANSACTION = 5;

    /// Seconds in which a rolling limit refills from empty to full.
    uint256 public constant WINDOW = 24 hours;
    /// A transaction pays at most this fraction of a rolling limit unless the admin set a cap.
    uint256 public constant TRANSACTION_SHARE = 2;
    mapping(bytes32 key => RollingLimit) private _limits;
    mapping(bytes32 key => PendingLimit) private _pendingLimits;

    event LimitSet(
        address indexed token, uint8 indexed kind, uint256 indexed tokenId, uint256 amount
    );
    event LimitScheduled(
        address indexed token,
        uint8 indexed kind,
        uint256 indexed tokenId,
        uint256 amount,
        uint256 executableAt
    );
    event LimitCanceled(address indexed token, uint8 indexed kind, uint256 indexed tokenId);

    error InvalidAsset();
    error LimitTooHigh(uint256 amount);
    error NotAContract(address account);

    /// @notice Sets a limit of one of the six kinds. `tokenId` is 0 except for kind ERC1155. A
    /// token whose limit was never set cannot be paid. Lowering, and the first setting of a token,
    /// take effect at once. Raising waits for the time lock and `applyLimit`.
    function setLimit(address token, uint8 kind, uint256 tokenId, uint256 amount)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
        nonReentrant
    {
        if (kind > ERC1155_TRANSACTION || (kind != ERC1155 && tokenId != 0)) revert InvalidAsset();
        _requireCode(token);
        if (amount > RollingLimits.MAX_CAP) revert LimitTooHigh(amount);
        bytes32 key = _limitKey(token, kind, tokenId);
        (uint256 cap, bool known) = _capInForce(token, kind, _limits[key]);
        if (known && amount > cap && timelock != 0) {
            uint64 due = _dueFromNow();
            _pendingLimits[key] = PendingLimit(uint96(amount), due);
            emit LimitScheduled(token, kind, tokenId, amount, due);
        } else {
            // A scheduled raise must not undo a lowering that came after it.
            _dropPending(token, kind, tokenId, key);
            _setLimit(token, kind, tokenId, amount);
        }
    }

    /// @notice Applies a scheduled raise after its time lock.
    function applyLimit(address token, uint8 kind, uint256 tokenId)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
        nonReentrant
    {
        bytes32 key = _limitKey(token, kind, tokenId);
        PendingLimit memory pending = _pendingLimits[key];
        _requireDue(pending.due);
        delete _pendingLimits[key];
        _setLimit(token, kind, tokenId, pending.cap);
    }

    function cancelLimit(address token, uint8 kind, uint256 tokenId)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
    {
        bytes32 key = _limitKey(token, kind, tokenId);
        if (_pendingLimits[key].due == 0) revert NothingScheduled();
        _dropPending(token, kind, tokenId, key);
    }

    /// @return cap the limit in force, which may come from another kind while this one is unset.
    /// @return available what is left of it now; for the caps per transaction the whole cap.
    function limitOf(address token, uint8 kind, uint256 tokenId)
        external
        view
        returns (uint256 cap, uint256 available)
    {
        return _limit(token, kind, tokenId);
    }

    /// @notice What the limits leave for one payment of an asset (kind ERC20 or ERC1155).
    /// @return maximum the largest amount that can ever be paid in one payment.
    /// @return available the largest amount that one payment in a new transaction can pay now.
    function paymentLimitOf(address token, uint8 kind, uint256 tokenId)
        external
        view
        returns (uint256 maximum, uint256 available)
    {
        if (kind > ERC1155) revert InvalidAsset();
        (maximum, available) = _limit(token, kind, tokenId);
        if (kind == ERC1155) {
            (uint256 total, uint256 left) = _limit(token, ERC1155_TOTAL, 0);
            (maximum, available) = (_min(maximum, total), _min(available, left));
        }
        (uint256 cap,) = _limit(token, kind == ERC20 ? ERC20_TRANSACTION : ERC1155_TRANSACTION, 0);
        return (_min(maximum, cap), _min(available, cap));
    }

    /// @return amount the scheduled raise, and when it can be applied; both 0 when there is none.
    function pendingLimitOf(address token, uint8 kind, uint256 tokenId)
        external
        view
        returns (uint256 amount, uint256 executableAt)
    {
        PendingLimit memory pending = _pendingLimits[_limitKey(token, kind, tokenId)];
        return (pending.cap, pending.due);
    }

    /// Whether a payment fits its rolling limits and the rest of its transaction's cap. If it does,
    /// `charge` holds what `_spend` will store.
    function _fitsLimits(
        address token,
        uint8 kind,
        uint256 tokenId,
        uint256 amount,
        Charge memory charge
    ) internal view returns (bool) {
        bytes32 key = _limitKey(token, kind, tokenId);
        RollingLimit limit = _limits[key];
        (uint256 cap,) = _capInForce(token, kind, limit);
        uint256 used = limit.used(cap, WINDOW);
        if (amount > cap || used + amount > cap) return false;
        (charge.key, charge.left) = (key, limit.withUsed(used + amount));

        if (kind == ERC1155) {
            key = _limitKey(token, ERC1155_TOTAL, 0);
            limit = _limits[key];
            (cap,) = _capInForce(token, ERC1155_TOTAL, limit);
            used = limit.used(cap, WINDOW);
            if (used + amount > cap) return false;
            (charge.totalKey, charge.totalLeft) = (key, limit.withUsed(used + amount));
        }

        key = _limitKey(token, kind == ERC20 ? ERC20_TRANSACTION : ERC1155_TRANSACTION, 0);
        limit = _limits[key];
        // `cap` is still the rolling limit that an unset cap per transaction derives from.
        cap = limit.isSet() ? limit.cap() : _share(cap);
        // Transient storage ends with the transaction, not with the call: a payer that is a
        // contract gains nothing by calling `pay` several times.
        uint256 sum;
        assembly ("memory-safe") {
            sum := tload(key)
        }
        sum += amount;
        (charge.transactionKey, charge.transactionSum) = (key, sum);
        return sum <= cap;
    }

    /// Only Paid counts. No limit can have changed since `_fitsLimits`, because whatever changes
    /// one is guarded against reentrancy.
    function _spend(uint8 kind, Charge memory charge) internal {
        _limits[charge.key] = charge.left;
        if (kind == ERC1155) _limits[charge.totalKey] = charge.totalLeft;
        (bytes32 key, uint256 sum) = (charge.transactionKey, charge.transactionSum);
        assembly ("memory-safe") {
            tstore(key, sum)
        }
    }

    /// Whether a limit of any kind was ever set that concerns this token and id.
    function _hasLimit(address token, uint256 tokenId) internal view returns (bool) {
        for (uint8 kind = 0; kind <= ERC1155_TRANSACTION; ++kind) {
            bytes32 key = _limitKey(token, kind, kind == ERC1155 ? tokenId : 0);
            if (_limits[key].isSet()) return true;
        }
        return false;
    }

    function _limit(address token, uint8 kind, uint256 tokenId)
        private
        view
        returns (uint256 cap, uint256 available)
    {
        RollingLimit limit = _limits[_limitKey(token, kind, tokenId)];
        (cap,) = _capInForce(token, kind, limit);
        uint256 used = limit.used(cap, WINDOW);
        available = cap > used ? cap - used : 0;
    }

    /// @return cap the limit's own cap, or the one that it derives from while unset.
    /// @return known whether either was ever set.
    function _capInForce(address token, uint8 kind, RollingLimit limit)
        private
        view
        returns (uint256 cap, bool known)
    {
        if (limit.isSet() || kind == ERC20 || kind == ERC1155_DEFAULT) {
            return (limit.cap(), limit.isSet());
        }
        if (kind == ERC1155 || kind == ERC1155_TOTAL) {
            limit = _limits[_limitKey(token, ERC1155_DEFAULT, 0)];
            return (limit.cap(), limit.isSet());
        }
        uint8 rolling = kind == ERC20_TRANSACTION ? ERC20 : ERC1155_TOTAL;
        limit = _limits[_limitKey(token, rolling, 0)];
        (cap, known) = _capInForce(token, rolling, limit);
        cap = _share(cap);
    }

    /// Rounded up, so that a limit of a few units pays something.
    function _share(uint256 rolling) private pure returns (uint256) {
        return (rolling + TRANSACTION_SHARE - 1) / TRANSACTION_SHARE;
    }

    function _min(uint256 a, uint256 b) private pure returns (uint256) {
        return a < b ? a : b;
    }

    function _setLimit(address token, uint8 kind, uint256 tokenId, uint256 amount) private {
        bytes32 key = _limitKey(token, kind, tokenId);
        RollingLimit limit = _limits[key];
        (uint256 cap,) = _capInForce(token, kind, limit);
        _limits[key] = RollingLimits.create(amount, limit.used(cap, WINDOW));
        emit LimitSet(token, kind, tokenId, amount);
    }

    function _dropPending(address token, uint8 kind, uint256 tokenId, bytes32 key) private {
        if (_pendingLimits[key].due == 0) return;
        delete _pendingLimits[key];
        emit LimitCanceled(token, kind, tokenId);
    }

    function _limitKey(address token, uint8 kind, uint256 tokenId)
        private
        pure
        returns (bytes32 key)
    {
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, and(token, 0xffffffffffffffffffffffffffffffffffffffff))
            mstore(add(data, 0x20), and(kind, 0xff))
            mstore(add(data, 0x40), tokenId)
            key := keccak256(data, 0x60)
        }
    }

    function _requireCode(address account) internal view {
        if (account.code.length == 0) revert NotAContract(account);
    }
}
