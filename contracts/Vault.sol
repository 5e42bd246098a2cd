// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessControlDefaultAdminRules} from
    "@openzeppelin/contracts/access/extensions/AccessControlDefaultAdminRules.sol";
import {ERC1155Holder} from "@openzeppelin/contracts/token/ERC1155/utils/ERC1155Holder.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {ReentrancyGuardTransient} from
    "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Assets} from "./Assets.sol";
import {RollingLimit, RollingLimits} from "./RollingLimit.sol";

/// @title Holds customers' assets and pays withdrawals, each id at most once.
/// @notice A payment ends as Paid or Failed, permanently, or is Skipped, which leaves its id
/// untouched. Each payment runs in its own call frame, which reverts unless the vault's holding
/// fell by exactly the amount. Failed therefore means that nothing moved, and Paid that the amount
/// moved, whatever the token or the recipient did.
/// @dev Has no immutables, so that the deployed code is the same everywhere and can be compared by
/// hash.
contract Vault is
    AccessControlDefaultAdminRules,
    Pausable,
    ReentrancyGuardTransient,
    ERC1155Holder
{
    struct Payment {
        bytes32 id;
        uint8 kind;
        address token;
        uint256 tokenId;
        uint256 amount;
        address to;
    }

    struct Asset {
        uint8 kind;
        address token;
        uint256 tokenId;
    }

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

    /// What this call of `pay` knows about tokens that refused a payment; MAX_PROBES of them.
    struct Probes {
        uint256 count;
        address[4] tokens;
        bool[4] passed;
    }

    bytes32 public constant PAYER_ROLE = keccak256("PAYER_ROLE");
    bytes32 public constant PAUSER_ROLE = keccak256("PAUSER_ROLE");

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

    // state(id)
    uint8 public constant NONE = 0;
    uint8 public constant PAID = 1;
    uint8 public constant FAILED = 2;
    uint8 public constant VOIDED = 3;

    // Skipped.reason
    uint8 public constant ALREADY_DONE = 1;
    uint8 public constant SHORT = 2;
    uint8 public constant OVER_LIMIT = 3;
    uint8 public constant INVALID = 4;
    /// The token refused the transfer, and one to another address too.
    uint8 public constant REFUSED = 5;

    // Gas: *_GAS is exactly what one payment's frame gets; *_RESERVE bounds the rest of its cost.
    // 50 × (GAS + RESERVE) stays under a quarter of a 30M block.
    uint256 public constant ERC20_GAS = 100_000;
    uint256 public constant ERC20_RESERVE = 45_000;
    uint256 public constant ERC1155_GAS = 90_000;
    uint256 public constant ERC1155_RESERVE = 58_000;
    /// What a probe costs: ERC20_GAS, the larger of both, and its overhead.
    uint256 public constant PROBE_GAS = 110_000;
    /// Tokens whose refusal one call of `pay` can judge. A chain has USDC and a few venues.
    uint256 public constant MAX_PROBES = 4;
    /// Whatever does not depend on the number of payments, probes included.
    uint256 public constant PAY_BASE_GAS = 160_000 + MAX_PROBES * PROBE_GAS;
    uint256 public constant VOID_GAS = 35_000;
    uint256 public constant VOID_BASE_GAS = 80_000;

    uint256 public constant MAX_PAYMENTS = 50;
    uint256 public constant MAX_VOIDS = 200;
    /// Where a probe tries to transfer to. Nobody has its key, and nothing ever arrives there.
    address public constant PROBE = address(uint160(uint256(keccak256("rfq-custody.vault.probe"))));

    /// Seconds in which a rolling limit refills from empty to full.
    uint256 public constant WINDOW = 24 hours;
    /// A transaction pays at most this fraction of a rolling limit unless the admin set a cap.
    uint256 public constant TRANSACTION_SHARE = 2;
    /// Seconds for which a scheduled change stays executable, so that none is forgotten and open.
    uint256 public constant EXECUTE_WINDOW = 14 days;

    /// The only batch number that `pay` accepts next.
    uint64 public nextBatchNo = 1;
    /// Seconds between announcing and doing what could take everything.
    uint32 public timelock;
    /// The vault before this one, whose outcomes count here. Zero for the first.
    address public predecessor;

    address public successor;
    /// When `migrate` can first run (seconds since 1970); 0 when nothing is scheduled.
    uint64 public migrationAt;
    /// Whether this vault has handed over to its successor. Permanent: it never pays or voids
    /// again.
    bool public retired;

    mapping(bytes32 id => uint8) private _states;
    mapping(bytes32 key => RollingLimit) private _limits;
    mapping(bytes32 key => PendingLimit) private _pendingLimits;
    mapping(bytes32 key => uint64) private _rescues;

    event Paid(
        bytes32 indexed id,
        uint256 indexed batchNo,
        address token,
        uint256 tokenId,
        uint256 amount,
        address to
    );
    /// `reason` is what the token said: the first 32 bytes of its message, its error's selector, or
    /// zero. The token chose it, so it informs people and must decide nothing.
    event Failed(bytes32 indexed id, uint256 indexed batchNo, bytes32 reason);
    event Skipped(bytes32 indexed id, uint256 indexed batchNo, uint8 reason);
    event Voided(bytes32 indexed id);
    /// `void` found the id already done, as `state` says: 1 Paid, 2 Failed, 3 Voided.
    event AlreadyDone(bytes32 indexed id, uint8 state);
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
    event MigrationScheduled(address indexed successor, uint256 executableAt);
    event MigrationCanceled(address indexed successor);
    event Retired(address indexed successor);
    event Migrated(
        address indexed successor, address indexed token, uint256 tokenId, uint256 amount
    );

    event RescueScheduled(
        address indexed token,
        uint256 indexed tokenId,
        address indexed to,
        uint8 kind,
        uint256 amount,
        uint256 executableAt
    );
    event RescueCanceled(
        address indexed token,
        uint256 indexed tokenId,
        address indexed to,
        uint8 kind,
        uint256 amount
    );
    event Rescued(
        address indexed token,
        uint256 indexed tokenId,
        address indexed to,
        uint8 kind,
        uint256 amount
    );

    error WrongBatch(uint256 expected);
    error DeadlinePassed(uint256 deadline);
    error BadCount(uint256 count);
    error NotEnoughGas();
    error OnlySelf();
    error TransferFailed(bytes32 reason);
    error ProbePassed();
    error InvalidAsset();
    error LimitTooHigh(uint256 amount);
    error NotAContract(address account);
    error NotASuccessor(address account);
    error PredecessorActive(address predecessor);
    error VaultRetired();
    error HasLimit(address token);
    error InvalidRecipient(address to);
    error NothingScheduled();
    error TooEarly(uint256 executableAt);
    error TooLate(uint256 expiredAt);

    constructor(
        uint48 adminDelay,
        address admin,
        address payer,
        address pauser,
        uint32 timelock_,
        address predecessor_
    ) AccessControlDefaultAdminRules(adminDelay, admin) {
        if (payer != address(0)) _grantRole(PAYER_ROLE, payer);
        if (pauser != address(0)) _grantRole(PAUSER_ROLE, pauser);
        if (predecessor_ != address(0)) {
            _requireCode(predecessor_);
            // Reverts as well if it is no vault.
            if (Vault(payable(predecessor_)).retired()) revert VaultRetired();
        }
        timelock = timelock_;
        predecessor = predecessor_;
    }

    /// @notice Accepts the native coin, which the factory sweeps here so that it can be rescued.
    receive() external payable {}

    // ---------------------------------------------------------------------------------- payments

    /// @notice Pays a batch. Reverts as a whole and marks nothing if `batchNo` is wrong, `deadline`
    /// (seconds since 1970, inclusive) has passed, the vault is paused or retired, its predecessor
    /// has not retired for it, or too little gas is left for a payment. Otherwise every payment
    /// ends in one event.
    function pay(uint256 batchNo, uint256 deadline, Payment[] calldata payments)
        external
        onlyRole(PAYER_ROLE)
        whenNotPaused
        nonReentrant
    {
        uint256 expected = nextBatchNo;
        if (batchNo != expected) revert WrongBatch(expected);
        if (block.timestamp > deadline) revert DeadlinePassed(deadline);
        uint256 count = payments.length;
        if (count == 0 || count > MAX_PAYMENTS) revert BadCount(count);
        nextBatchNo = uint64(batchNo + 1);
        address predecessor_ = predecessor;
        _requireTakenOver(predecessor_);
        Charge memory charge;
        Probes memory probes;
        for (uint256 i = 0; i < count; ++i) {
            _pay(batchNo, payments[i], predecessor_, charge, probes);
        }
    }

    /// @notice Makes ids permanently unpayable. Leaves ids that are already done as they are and
    /// reports their outcome. Works while paused, but not once retired: another vault decides then.
    function void(bytes32[] calldata ids) external onlyRole(PAYER_ROLE) nonReentrant {
        if (retired) revert VaultRetired();
        if (ids.length == 0 || ids.length > MAX_VOIDS) revert BadCount(ids.length);
        address predecessor_ = predecessor;
        _requireTakenOver(predecessor_);
        for (uint256 i = 0; i < ids.length; ++i) {
            bytes32 id = ids[i];
            uint8 done = _state(id, predecessor_);
            if (done == NONE) {
                _states[id] = VOIDED;
                emit Voided(id);
            } else {
                emit AlreadyDone(id, done);
            }
        }
    }

    /// @notice 0 None, 1 Paid, 2 Failed, 3 Voided. Outcomes in a predecessor count.
    function state(bytes32 id) external view returns (uint8) {
        return _state(id, predecessor);
    }

    function states(bytes32[] calldata ids) external view returns (uint8[] memory result) {
        result = new uint8[](ids.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            result[i] = _state(ids[i], predecessor);
        }
    }

    /// @notice The gas limit that suffices for such a batch whatever its tokens and recipients do.
    function payGasLimit(uint256 erc20Count, uint256 erc1155Count)
        external
        pure
        returns (uint256)
    {
        return PAY_BASE_GAS + erc20Count * (ERC20_GAS + ERC20_RESERVE)
            + erc1155Count * (ERC1155_GAS + ERC1155_RESERVE);
    }

    function voidGasLimit(uint256 count) external pure returns (uint256) {
        return VOID_BASE_GAS + count * VOID_GAS;
    }

    /// @notice One payment in its own frame; only the vault calls it. A revert undoes all of it, so
    /// a token that reports success and moves nothing, or another amount, ends as Failed.
    /// @return PAID, or SHORT when the vault does not hold the amount or the token reports no
    /// balance.
    function attempt(Payment calldata payment) external returns (uint256) {
        if (msg.sender != address(this)) revert OnlySelf();
        return _transfer(payment, payment.to) ? PAID : SHORT;
    }

    /// @notice The same transfer to another address, which always reverts; only the vault calls it.
    function probe(Payment calldata payment) external {
        if (msg.sender != address(this)) revert OnlySelf();
        if (_transfer(payment, PROBE)) revert ProbePassed();
    }

    /// False when the vault does not hold the amount. Reverts unless exactly the amount moved.
    function _transfer(Payment calldata payment, address to) private returns (bool) {
        (uint8 kind, address token, uint256 tokenId, uint256 amount) =
            (payment.kind, payment.token, payment.tokenId, payment.amount);
        (bool ok, uint256 held) = Assets.balanceOf(kind, token, tokenId, address(this));
        if (!ok || held < amount) return false;
        bytes32 reason;
        (ok, reason) = Assets.transferExactly(kind, token, tokenId, amount, to, held);
        if (!ok) revert TransferFailed(reason);
        return true;
    }

    function _pay(
        uint256 batchNo,
        Payment calldata payment,
        address predecessor_,
        Charge memory charge,
        Probes memory probes
    ) private {
        bytes32 id = payment.id;
        if (_state(id, predecessor_) != NONE) {
            emit Skipped(id, batchNo, ALREADY_DONE);
            return;
        }
        if (!_isValid(payment)) {
            emit Skipped(id, batchNo, INVALID);
            return;
        }
        if (!_fitsLimits(payment, charge)) {
            emit Skipped(id, batchNo, OVER_LIMIT);
            return;
        }

        // Written before the call, so that code that runs inside it finds the id done.
        _states[id] = PAID;
        uint256 reserve = payment.kind == ERC20 ? ERC20_RESERVE : ERC1155_RESERVE;
        (bool ok, bytes32 word,) = _inFrame(payment, this.attempt.selector, reserve);
        if (ok && uint256(word) == PAID) {
            _spend(payment.kind, charge);
            emit Paid(id, batchNo, payment.token, payment.tokenId, payment.amount, payment.to);
        } else if (ok) {
            _states[id] = NONE;
            emit Skipped(id, batchNo, SHORT);
        } else if (_refusesOthers(payment, probes)) {
            _states[id] = NONE;
            emit Skipped(id, batchNo, REFUSED);
        } else {
            _states[id] = FAILED;
            emit Failed(id, batchNo, word);
        }
    }

    /// Whether the token refuses this payment to anybody: it is paused, or has blacklisted the
    /// vault. Then the recipient is not the cause, and the payment must not fail permanently. Asks
    /// once per token and call; a token that was not asked counts as refusing, so that Failed is
    /// always proven.
    function _refusesOthers(Payment calldata payment, Probes memory probes)
        private
        returns (bool)
    {
        address token = payment.token;
        uint256 count = probes.count;
        for (uint256 i = 0; i < count; ++i) {
            if (probes.tokens[i] == token) return !probes.passed[i];
        }
        if (count == MAX_PROBES) return true;
        uint256 given = payment.kind == ERC20 ? ERC20_GAS : ERC1155_GAS;
        (,, bytes4 error_) = _inFrame(payment, this.probe.selector, PROBE_GAS - given);
        bool passed = error_ == ProbePassed.selector;
        probes.count = count + 1;
        (probes.tokens[count], probes.passed[count]) = (token, passed);
        return !passed;
    }

    /// Calls this contract with exactly the gas of the payment's kind. A call gets at most 63/64 of
    /// the gas that is left. Without the check a low gas limit would starve a good payment, leave
    /// enough gas to mark it Failed, and do so permanently.
    /// @return ok whether the frame succeeded.
    /// @return word what it returned, or the argument of its error, which the token may have chosen.
    /// @return error_ the selector of its error, which is this contract's own.
    function _inFrame(Payment calldata payment, bytes4 selector, uint256 reserve)
        private
        returns (bool ok, bytes32 word, bytes4 error_)
    {
        uint256 given = payment.kind == ERC20 ? ERC20_GAS : ERC1155_GAS;
        if ((gasleft() * 63) / 64 <= given + reserve) revert NotEnoughGas();
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            calldatacopy(add(data, 0x04), payment, 0xc0)
            mstore(0x00, 0)
            mstore(0x20, 0)
            ok := call(given, address(), 0, data, 0xc4, 0x00, 0x24)
            word := mload(0x00)
            if iszero(ok) {
                error_ := shl(224, shr(224, word))
                word := mload(0x04)
            }
        }
    }

    /// Two vaults that could both pay or void would each believe an id open that the other has
    /// done. The predecessor retires for one successor and for ever, so only one of them can at any
    /// time.
    function _requireTakenOver(address predecessor_) private view {
        if (predecessor_ == address(0)) return;
        if (Vault(payable(predecessor_)).retiredFor() != address(this)) {
            revert PredecessorActive(predecessor_);
        }
    }

    /// ERC-20 has no ids: another id would be another limit for the same money.
    function _isValid(Payment calldata payment) private pure returns (bool) {
        uint8 kind = payment.kind;
        return payment.amount != 0
            && (kind == ERC1155 || (kind == ERC20 && payment.tokenId == 0));
    }

    function _state(bytes32 id, address predecessor_) private view returns (uint8 result) {
        result = _states[id];
        if (result == NONE && predecessor_ != address(0)) {
            result = Vault(payable(predecessor_)).state(id);
        }
    }

    // ------------------------------------------------------------------------------------ limits

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
            uint64 due = uint64(block.timestamp + timelock);
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
    function _fitsLimits(Payment calldata payment, Charge memory charge)
        private
        view
        returns (bool)
    {
        (address token, uint8 kind, uint256 amount) =
            (payment.token, payment.kind, payment.amount);
        bytes32 key = _limitKey(token, kind, payment.tokenId);
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
    function _spend(uint8 kind, Charge memory charge) private {
        _limits[charge.key] = charge.left;
        if (kind == ERC1155) _limits[charge.totalKey] = charge.totalLeft;
        (bytes32 key, uint256 sum) = (charge.transactionKey, charge.transactionSum);
        assembly ("memory-safe") {
            tstore(key, sum)
        }
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

    // -------------------------------------------------------------------- pausing and migrating

    function pause() external onlyRole(PAUSER_ROLE) {
        _pause();
    }

    /// @notice Only the admin resumes, so that a stolen pauser key can at most stop payments. A
    /// retired vault stays paused.
    function unpause() external onlyRole(DEFAULT_ADMIN_ROLE) {
        if (retired) revert VaultRetired();
        _unpause();
    }

    /// @notice The vault that has taken over permanently; zero while this one can still pay.
    function retiredFor() external view returns (address) {
        return retired ? successor : address(0);
    }

    /// @notice Announces the vault that will take over. It must have been deployed with this one as
    /// its predecessor, so that it honours the ids that are done here.
    function scheduleMigration(address successor_) external onlyRole(DEFAULT_ADMIN_ROLE) {
        if (retired) revert VaultRetired();
        _requireCode(successor_);
        if (Vault(payable(successor_)).predecessor() != address(this)) {
            revert NotASuccessor(successor_);
        }
        if (migrationAt != 0) emit MigrationCanceled(successor);
        uint64 due = uint64(block.timestamp + timelock);
        successor = successor_;
        migrationAt = due;
        emit MigrationScheduled(successor_, due);
    }

    function cancelMigration() external onlyRole(DEFAULT_ADMIN_ROLE) {
        if (retired) revert VaultRetired();
        if (migrationAt == 0) revert NothingScheduled();
        emit MigrationCanceled(successor);
        successor = address(0);
        migrationAt = 0;
    }

    /// @notice Moves whole holdings to the scheduled successor, while paused and after the time
    /// lock. The first call retires this vault and must fall within EXECUTE_WINDOW. Later calls
    /// move what arrives afterwards, at any time. A call that fails for one asset moves none.
    /// Assets that are not held are passed over.
    function migrate(Asset[] calldata assets)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
        whenPaused
        nonReentrant
    {
        if (!retired) {
            _requireDue(migrationAt);
            // This vault's own predecessor could still pay; retiring would hide it from the
            // successor.
            _requireTakenOver(predecessor);
            retired = true;
            emit Retired(successor);
        }
        for (uint256 i = 0; i < assets.length; ++i) {
            Asset calldata asset = assets[i];
            (uint8 kind, address token, uint256 tokenId) =
                (asset.kind, asset.token, asset.tokenId);
            if (!_isAsset(kind, token, tokenId)) revert InvalidAsset();
            (bool ok, uint256 held) = Assets.balanceOf(kind, token, tokenId, address(this));
            if (!ok) revert TransferFailed(0);
            if (held == 0) continue;
            bytes32 reason;
            (ok, reason) = Assets.transferExactly(kind, token, tokenId, held, successor, held);
            if (!ok) revert TransferFailed(reason);
            emit Migrated(successor, token, tokenId, held);
        }
    }

    // ---------------------------------------------------------------------------------- rescuing

    /// @notice Announces that a mistaken transfer will be sent on: a token of which no limit was
    /// ever set, so that it cannot be paid, or the native coin (kind 255, token and id zero).
    function scheduleRescue(Asset calldata asset, address to, uint256 amount)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
    {
        _requireRescuable(asset);
        if (to == address(0) || to == address(this)) revert InvalidRecipient(to);
        uint64 due = uint64(block.timestamp + timelock);
        _rescues[_rescueKey(asset, to, amount)] = due;
        emit RescueScheduled(asset.token, asset.tokenId, to, asset.kind, amount, due);
    }

    function cancelRescue(Asset calldata asset, address to, uint256 amount)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
    {
        bytes32 key = _rescueKey(asset, to, amount);
        if (_rescues[key] == 0) revert NothingScheduled();
        delete _rescues[key];
        emit RescueCanceled(asset.token, asset.tokenId, to, asset.kind, amount);
    }

    /// @notice Sends on what was announced, after the time lock and within EXECUTE_WINDOW. Works
    /// while paused and once retired. Refused if a limit of the token was set in the meantime.
    function rescue(Asset calldata asset, address to, uint256 amount)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
        nonReentrant
    {
        _requireRescuable(asset);
        bytes32 key = _rescueKey(asset, to, amount);
        _requireDue(_rescues[key]);
        delete _rescues[key];
        (bool ok, bytes32 reason) =
            Assets.transfer(asset.kind, asset.token, asset.tokenId, amount, to);
        if (!ok) revert TransferFailed(reason);
        emit Rescued(asset.token, asset.tokenId, to, asset.kind, amount);
    }

    /// @return when this rescue can run (seconds since 1970); 0 when it is not scheduled.
    function rescueAt(Asset calldata asset, address to, uint256 amount)
        external
        view
        returns (uint256)
    {
        return _rescues[_rescueKey(asset, to, amount)];
    }

    /// A limit of any kind, 0 too, marks the token as one that customers may own.
    function _requireRescuable(Asset calldata asset) private view {
        (uint8 kind, address token, uint256 tokenId) = (asset.kind, asset.token, asset.tokenId);
        if (!_isAsset(kind, token, tokenId)) revert InvalidAsset();
        if (kind == Assets.NATIVE) return;
        for (uint8 limit = 0; limit <= ERC1155_TRANSACTION; ++limit) {
            bytes32 key = _limitKey(token, limit, limit == ERC1155 ? tokenId : 0);
            if (_limits[key].isSet()) revert HasLimit(token);
        }
    }

    function _rescueKey(Asset calldata asset, address to, uint256 amount)
        private
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(asset.kind, asset.token, asset.tokenId, to, amount));
    }

    function _isAsset(uint8 kind, address token, uint256 tokenId) private pure returns (bool) {
        return kind == ERC1155 || (kind == ERC20 && tokenId == 0)
            || Assets.isNative(kind, token, tokenId);
    }

    // ------------------------------------------------------------------------------------ shared

    function _requireDue(uint256 due) private view {
        if (due == 0) revert NothingScheduled();
        if (block.timestamp < due) revert TooEarly(due);
        if (block.timestamp > due + EXECUTE_WINDOW) revert TooLate(due + EXECUTE_WINDOW);
    }

    function _requireCode(address account) private view {
        if (account.code.length == 0) revert NotAContract(account);
    }

    function supportsInterface(bytes4 interfaceId)
        public
        view
        override(AccessControlDefaultAdminRules, ERC1155Holder)
        returns (bool)
    {
        return super.supportsInterface(interfaceId);
    }
}
