// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessControlDefaultAdminRules} from
    "@openzeppelin/contracts/access/extensions/AccessControlDefaultAdminRules.sol";
import {ERC1155Holder} from "@openzeppelin/contracts/token/ERC1155/utils/ERC1155Holder.sol";
import {Pausable} from "@openzeppelin/contracts/utils/Pausable.sol";
import {Assets} from "./Assets.sol";
import {Rescue} from "./Rescue.sol";
import {TimeLock} from "./TimeLock.sol";

/// @title Holds customers' assets and pays withdrawals, each id at most once.
/// @notice A payment ends as Paid or Failed, permanently, or is Skipped, which leaves its id
/// untouched. Each payment runs in its own call frame, which reverts unless the vault's holding
/// fell by exactly the amount. Failed therefore means that nothing moved, and Paid that the amount
/// moved, whatever the token or the recipient did.
/// @dev Has no immutables, so that the deployed code is the same everywhere and can be compared by
/// hash.
contract Vault is Rescue, Pausable, ERC1155Holder {
    struct Payment {
        bytes32 id;
        uint8 kind;
        address token;
        uint256 tokenId;
        uint256 amount;
        address to;
    }

    /// What this call of `pay` knows about tokens that refused a payment; MAX_PROBES of them.
    struct Probes {
        uint256 count;
        address[4] tokens;
        bool[4] passed;
    }

    bytes32 public constant PAYER_ROLE = keccak256("PAYER_ROLE");
    bytes32 public constant PAUSER_ROLE = keccak256("PAUSER_ROLE");

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

    /// The only batch number that `pay` accepts next.
    uint64 public nextBatchNo = 1;
    /// The vault before this one, whose outcomes count here. Zero for the first.
    address public predecessor;

    address public successor;
    /// When `migrate` can first run (seconds since 1970); 0 when nothing is scheduled.
    uint64 public migrationAt;
    /// Whether this vault has handed over to its successor. Permanent: it never pays or voids
    /// again.
    bool public retired;

    mapping(bytes32 id => uint8) private _states;

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
    event MigrationScheduled(address indexed successor, uint256 executableAt);
    event MigrationCanceled(address indexed successor);
    event Retired(address indexed successor);
    event Migrated(
        address indexed successor, address indexed token, uint256 tokenId, uint256 amount
    );

    error WrongBatch(uint256 expected);
    error DeadlinePassed(uint256 deadline);
    error BadCount(uint256 count);
    error NotEnoughGas();
    error OnlySelf();
    error ProbePassed();
    error NotASuccessor(address account);
    error PredecessorActive(address predecessor);
    error VaultRetired();

    constructor(
        uint48 adminDelay,
        address admin,
        address payer,
        address pauser,
        uint32 timelock_,
        address predecessor_
    ) AccessControlDefaultAdminRules(adminDelay, admin) TimeLock(timelock_) {
        if (payer != address(0)) _grantRole(PAYER_ROLE, payer);
        if (pauser != address(0)) _grantRole(PAUSER_ROLE, pauser);
        if (predecessor_ != address(0)) {
            _requireCode(predecessor_);
            // Reverts as well if it is no vault.
            if (Vault(payable(predecessor_)).retired()) revert VaultRetired();
        }
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
        if (!_fitsLimits(payment.token, payment.kind, payment.tokenId, payment.amount, charge)) {
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
    /// @return word what it returned, or the argument of its error. The token may have chosen it.
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
        uint64 due = _dueFromNow();
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
            if (!Assets.isAsset(kind, token, tokenId)) revert InvalidAsset();
            (bool ok, uint256 held) = Assets.balanceOf(kind, token, tokenId, address(this));
            if (!ok) revert TransferFailed(0);
            if (held == 0) continue;
            bytes32 reason;
            (ok, reason) = Assets.transferExactly(kind, token, tokenId, held, successor, held);
            if (!ok) revert TransferFailed(reason);
            emit Migrated(successor, token, tokenId, held);
        }
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
