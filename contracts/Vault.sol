// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessControlDefaultAdminRules} from
    "@openzeppelin/contracts/access/extensions/AccessControlDefaultAdminRules.sol";
import {ERC1155Holder} from "@openzeppelin/contracts/token/ERC1155/utils/ERC1155Holder.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Assets} from "./Assets.sol";

/// @title Holds customers' assets and pays withdrawals, each id at most once.
/// @notice A payment ends as Paid or Failed, for ever, or is Skipped, which leaves its id untouched. Each payment
/// runs in a frame of its own that reverts unless the vault's holding fell by exactly the amount: so Failed
/// always means that nothing moved, whatever the token or the recipient did, and Paid that it did.
/// @dev No immutables on purpose: the deployed code is the same everywhere and can be compared by hash.
contract Vault is AccessControlDefaultAdminRules, Pausable, ReentrancyGuardTransient, ERC1155Holder {
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

    /// One slot: `used` leaks at `cap` per WINDOW since `touched`.
    struct Limit {
        uint96 cap;
        uint96 used;
        uint40 touched;
        bool set;
    }

    struct PendingLimit {
        uint96 cap;
        uint64 due;
    }

    bytes32 public constant PAYER_ROLE = keccak256("PAYER_ROLE");
    bytes32 public constant PAUSER_ROLE = keccak256("PAUSER_ROLE");

    // Kinds of asset; the third names the limit of a contract's ERC-1155 ids that have none of their own.
    uint8 public constant ERC20 = Assets.ERC20;
    uint8 public constant ERC1155 = Assets.ERC1155;
    uint8 public constant ERC1155_DEFAULT = 2;

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

    // Gas: *_GAS is what one payment's frame gets, exactly; *_RESERVE bounds everything else a payment costs.
    // 50 × (GAS + RESERVE) stays under a quarter of a 30M block.
    uint256 public constant ERC20_GAS = 100_000;
    uint256 public constant ERC20_RESERVE = 45_000;
    uint256 public constant ERC1155_GAS = 90_000;
    uint256 public constant ERC1155_RESERVE = 58_000;
    uint256 public constant PAY_BASE_GAS = 150_000;
    uint256 public constant VOID_GAS = 35_000;
    uint256 public constant VOID_BASE_GAS = 80_000;

    uint256 public constant MAX_PAYMENTS = 50;
    uint256 public constant MAX_VOIDS = 200;
    /// Time in which a limit refills from empty to full.
    uint256 public constant WINDOW = 24 hours;
    /// A scheduled change that nobody executed for this long is void, so an old one is no open door.
    uint256 public constant EXECUTE_WINDOW = 14 days;

    /// The only batch number that `pay` accepts next.
    uint64 public nextBatchNo = 1;
    /// Seconds between announcing and doing what could take everything: migrating, raising a limit.
    uint32 public timelock;
    /// The vault before this one: what is done there is done here. Zero for the first.
    address public predecessor;

    address public successor;
    /// When `migrate` can run (seconds since 1970); 0 when nothing is scheduled.
    uint64 public migrationAt;

    mapping(bytes32 id => uint8) private _states;
    mapping(bytes32 key => Limit) private _limits;
    mapping(bytes32 key => PendingLimit) private _pendingLimits;

    event Paid(
        bytes32 indexed id, uint256 indexed batchNo, address token, uint256 tokenId, uint256 amount, address to
    );
    event Failed(bytes32 indexed id, uint256 indexed batchNo);
    event Skipped(bytes32 indexed id, uint256 indexed batchNo, uint8 reason);
    event Voided(bytes32 indexed id);
    event LimitSet(address indexed token, uint8 indexed kind, uint256 indexed tokenId, uint256 amount);
    event LimitScheduled(
        address indexed token, uint8 indexed kind, uint256 indexed tokenId, uint256 amount, uint256 executableAt
    );
    event LimitCanceled(address indexed token, uint8 indexed kind, uint256 indexed tokenId);
    event MigrationScheduled(address indexed successor, uint256 executableAt);
    event MigrationCanceled(address indexed successor);
    event Migrated(address indexed successor, address indexed token, uint256 tokenId, uint256 amount);

    error WrongBatch(uint256 expected);
    error DeadlinePassed(uint256 deadline);
    error BadCount(uint256 count);
    error NotEnoughGas();
    error OnlySelf();
    error TransferFailed();
    error InvalidAsset();
    error LimitTooHigh(uint256 amount);
    error NotAContract(address account);
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
        if (predecessor_ != address(0)) _requireCode(predecessor_);
        timelock = timelock_;
        predecessor = predecessor_;
    }


    /// @notice Pays a batch. Reverts as a whole, marking nothing: wrong `batchNo`, passed `deadline` (seconds since
    /// 1970, inclusive), paused, or too little gas left for a payment. Otherwise every payment ends in one event.
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
        for (uint256 i = 0; i < count; ++i) {
            _pay(batchNo, payments[i], predecessor_);
        }
    }

    /// @notice Makes ids unpayable for ever. Ids that are already done stay as they are. Works while paused.
    function void(bytes32[] calldata ids) external onlyRole(PAYER_ROLE) nonReentrant {
        if (ids.length == 0 || ids.length > MAX_VOIDS) revert BadCount(ids.length);
        address predecessor_ = predecessor;
        for (uint256 i = 0; i < ids.length; ++i) {
            if (_state(ids[i], predecessor_) != NONE) continue;
            _states[ids[i]] = VOIDED;
            emit Voided(ids[i]);
        }
    }

    /// @notice 0 None, 1 Paid, 2 Failed, 3 Voided; what was done in a predecessor counts.
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
    function payGasLimit(uint256 erc20Count, uint256 erc1155Count) external pure returns (uint256) {
        return PAY_BASE_GAS + erc20Count * (ERC20_GAS + ERC20_RESERVE)
            + erc1155Count * (ERC1155_GAS + ERC1155_RESERVE);
    }

    function voidGasLimit(uint256 count) external pure returns (uint256) {
        return VOID_BASE_GAS + count * VOID_GAS;
    }

    /// @notice One payment in a frame of its own; only the vault calls it. Reverting undoes all of it, so a token
    /// that lies (says yes and moves nothing, or another amount) ends as Failed with nothing moved.
    /// @return PAID, or SHORT when the vault does not hold the amount or the token does not tell.
    function attempt(Payment calldata payment) external returns (uint256) {
        if (msg.sender != address(this)) revert OnlySelf();
        (uint8 kind, address token, uint256 tokenId, uint256 amount) =
            (payment.kind, payment.token, payment.tokenId, payment.amount);
        (bool ok, uint256 held) = Assets.balanceOf(kind, token, tokenId, address(this));
        if (!ok || held < amount) return SHORT;
        if (!Assets.transferExactly(kind, token, tokenId, amount, payment.to, held)) revert TransferFailed();
        return PAID;
    }

    function _pay(uint256 batchNo, Payment calldata payment, address predecessor_) private {
        bytes32 id = payment.id;
        if (_state(id, predecessor_) != NONE) {
            emit Skipped(id, batchNo, ALREADY_DONE);
            return;
        }
        if (!_isValid(payment)) {
            emit Skipped(id, batchNo, INVALID);
            return;
        }
        bytes32 key = _limitKey(payment.token, payment.kind, payment.tokenId);
        (Limit memory limit, uint256 cap, uint256 used) = _limit(payment.token, payment.kind, key);
        uint256 amount = payment.amount;
        if (amount > cap || used + amount > cap) {
            emit Skipped(id, batchNo, OVER_LIMIT);
            return;
        }

        // Before the call, so that nobody who runs inside it can find the id unpaid.
        _states[id] = PAID;
        (bool ok, uint256 result) = _attempt(payment);
        if (ok && result == PAID) {
            _limits[key] = Limit(limit.cap, uint96(used + amount), uint40(block.timestamp), limit.set);
            emit Paid(id, batchNo, payment.token, payment.tokenId, amount, payment.to);
        } else if (ok) {
            _states[id] = NONE;
            emit Skipped(id, batchNo, SHORT);
        } else {
            _states[id] = FAILED;
            emit Failed(id, batchNo);
        }
    }

    /// A call gets at most 63/64 of what is left: without this check a low gas limit would starve a good payment,
    /// leave enough to mark it Failed, and do so for ever.
    function _attempt(Payment calldata payment) private returns (bool ok, uint256 result) {
        (uint256 given, uint256 reserve) =
            payment.kind == ERC20 ? (ERC20_GAS, ERC20_RESERVE) : (ERC1155_GAS, ERC1155_RESERVE);
        bytes4 selector = this.attempt.selector;
        if ((gasleft() * 63) / 64 <= given + reserve) revert NotEnoughGas();
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            calldatacopy(add(data, 0x04), payment, 0xc0)
            ok := call(given, address(), 0, data, 0xc4, 0x00, 0x20)
            result := mload(0x00)
        }
    }

    /// ERC-20 has no ids: another id would be another limit for the same money.
    function _isValid(Payment calldata payment) private pure returns (bool) {
        uint8 kind = payment.kind;
        return payment.amount != 0 && (kind == ERC1155 || (kind == ERC20 && payment.tokenId == 0));
    }

    function _state(bytes32 id, address predecessor_) private view returns (uint8 result) {
        result = _states[id];
        if (result == NONE && predecessor_ != address(0)) result = Vault(predecessor_).state(id);
    }


    /// @notice Sets what can be paid per WINDOW: ERC20 (tokenId 0), one ERC1155 id, or ERC1155_DEFAULT (tokenId 0)
    /// for all ids of a contract that have none of their own. Unset means nothing can be paid. Lowering, and the
    /// first setting, take effect at once; raising waits for the time lock and `applyLimit`.
    function setLimit(address token, uint8 kind, uint256 tokenId, uint256 amount)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
        nonReentrant
    {
        if (kind > ERC1155_DEFAULT || (kind != ERC1155 && tokenId != 0)) revert InvalidAsset();
        _requireCode(token);
        if (amount > type(uint96).max) revert LimitTooHigh(amount);
        bytes32 key = _limitKey(token, kind, tokenId);
        (Limit memory limit, uint256 cap,) = _limit(token, kind, key);
        bool known = limit.set || (kind == ERC1155 && _limits[_limitKey(token, ERC1155_DEFAULT, 0)].set);
        if (known && amount > cap && timelock != 0) {
            uint64 due = uint64(block.timestamp + timelock);
            _pendingLimits[key] = PendingLimit(uint96(amount), due);
            emit LimitScheduled(token, kind, tokenId, amount, due);
        } else {
            // A raise on its way must not undo a lowering that came after it.
            _dropPending(token, kind, tokenId, key);
            _setLimit(token, kind, tokenId, key, amount);
        }
    }

    /// @notice Carries out a raise whose time has come.
    function applyLimit(address token, uint8 kind, uint256 tokenId) external onlyRole(DEFAULT_ADMIN_ROLE) nonReentrant {
        bytes32 key = _limitKey(token, kind, tokenId);
        PendingLimit memory pending = _pendingLimits[key];
        _requireDue(pending.due);
        delete _pendingLimits[key];
        _setLimit(token, kind, tokenId, key, pending.cap);
    }

    function cancelLimit(address token, uint8 kind, uint256 tokenId) external onlyRole(DEFAULT_ADMIN_ROLE) {
        bytes32 key = _limitKey(token, kind, tokenId);
        if (_pendingLimits[key].due == 0) revert NothingScheduled();
        _dropPending(token, kind, tokenId, key);
    }

    /// @return cap what can be paid per WINDOW.
    /// @return available what can be paid now.
    function limitOf(address token, uint8 kind, uint256 tokenId)
        external
        view
        returns (uint256 cap, uint256 available)
    {
        uint256 used;
        (, cap, used) = _limit(token, kind, _limitKey(token, kind, tokenId));
        available = cap > used ? cap - used : 0;
    }

    /// @return amount the raise on its way, and when it can be applied; both 0 when there is none.
    function pendingLimitOf(address token, uint8 kind, uint256 tokenId)
        external
        view
        returns (uint256 amount, uint256 executableAt)
    {
        PendingLimit memory pending = _pendingLimits[_limitKey(token, kind, tokenId)];
        return (pending.cap, pending.due);
    }

    function _limit(address token, uint8 kind, bytes32 key)
        private
        view
        returns (Limit memory limit, uint256 cap, uint256 used)
    {
        limit = _limits[key];
        cap = limit.cap;
        if (!limit.set && kind == ERC1155) cap = _limits[_limitKey(token, ERC1155_DEFAULT, 0)].cap;
        uint256 leaked = (cap * (block.timestamp - limit.touched)) / WINDOW;
        used = limit.used > leaked ? limit.used - leaked : 0;
    }

    function _setLimit(address token, uint8 kind, uint256 tokenId, bytes32 key, uint256 amount) private {
        (,, uint256 used) = _limit(token, kind, key);
        _limits[key] = Limit(uint96(amount), uint96(used), uint40(block.timestamp), true);
        emit LimitSet(token, kind, tokenId, amount);
    }

    function _dropPending(address token, uint8 kind, uint256 tokenId, bytes32 key) private {
        if (_pendingLimits[key].due == 0) return;
        delete _pendingLimits[key];
        emit LimitCanceled(token, kind, tokenId);
    }

    function _limitKey(address token, uint8 kind, uint256 tokenId) private pure returns (bytes32) {
        return keccak256(abi.encode(token, kind, tokenId));
    }


    function pause() external onlyRole(PAUSER_ROLE) {
        _pause();
    }

    /// @notice Stopping is easy, going on takes the admin.
    function unpause() external onlyRole(DEFAULT_ADMIN_ROLE) {
        _unpause();
    }

    /// @notice Announces the vault that will take over everything held here.
    function scheduleMigration(address successor_) external onlyRole(DEFAULT_ADMIN_ROLE) {
        _requireCode(successor_);
        if (migrationAt != 0) emit MigrationCanceled(successor);
        uint64 due = uint64(block.timestamp + timelock);
        successor = successor_;
        migrationAt = due;
        emit MigrationScheduled(successor_, due);
    }

    function cancelMigration() external onlyRole(DEFAULT_ADMIN_ROLE) {
        if (migrationAt == 0) revert NothingScheduled();
        emit MigrationCanceled(successor);
        successor = address(0);
        migrationAt = 0;
    }

    /// @notice Moves whole holdings to the scheduled successor, while paused, after the time lock; in as many calls
    /// as it takes within EXECUTE_WINDOW. All or nothing; what is not held is passed over.
    function migrate(Asset[] calldata assets) external onlyRole(DEFAULT_ADMIN_ROLE) whenPaused nonReentrant {
        _requireDue(migrationAt);
        for (uint256 i = 0; i < assets.length; ++i) {
            Asset calldata asset = assets[i];
            if (asset.kind > ERC1155) revert InvalidAsset();
            (bool ok, uint256 held) = Assets.balanceOf(asset.kind, asset.token, asset.tokenId, address(this));
            if (!ok) revert TransferFailed();
            if (held == 0) continue;
            if (!Assets.transferExactly(asset.kind, asset.token, asset.tokenId, held, successor, held)) {
                revert TransferFailed();
            }
            emit Migrated(successor, asset.token, asset.tokenId, held);
        }
    }

    function _requireDue(uint256 due) private view {
        if (due == 0) revert NothingScheduled();
        if (block.timestamp < due) revert TooEarly(due);
        if (block.timestamp >  due + EXECUTE_WINDOW) revert TooLate(due + EXECUTE_WINDOW);
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
