// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessControlDefaultAdminRules} from
    "@openzeppelin/contracts/access/extensions/AccessControlDefaultAdminRules.sol";
import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {Assets} from "./Assets.sol";
import {Forwarder} from "./Forwarder.sol";
import {TimeLock} from "./TimeLock.sol";

/// @title Deposit addresses: CREATE2 clones that can only pay into the vault.
/// @notice An address depends on this factory and its salt alone, so it can be issued, and receive,
/// before it is deployed. Only where sweeps go can change (admin, time-locked), so that a new vault
/// strands no address.
/// @dev Has no immutables, so that the deployed code is the same everywhere and can be compared by
/// hash.
contract DepositFactory is AccessControlDefaultAdminRules, TimeLock {
    struct Item {
        bytes32 salt;
        address token;
        uint8 kind;
        uint256 tokenId;
        uint256 minAmount;
    }

    bytes32 public constant SWEEPER_ROLE = keccak256("SWEEPER_ROLE");

    /// Gas for one item's transfer, and for the rest of it (balance, clone, events).
    uint256 public constant SWEEP_GAS = 120_000;
    uint256 public constant SWEEP_RESERVE = 95_000;
    uint256 public constant SWEEP_BASE_GAS = 150_000;
    /// 75 items at their worst stay under the 2^24 gas that EIP-7825 allows a transaction.
    uint256 public constant MAX_ITEMS = 75;

    /// The code behind every deposit address: CREATE address of this factory, nonce 1.
    address public implementation;
    /// Where sweeps go.
    address public vault;

    address public pendingVault;
    /// When `pendingVault` can be executed (seconds since 1970); 0 when nothing is scheduled.
    uint64 public pendingVaultAt;

    event Swept(
        bytes32 indexed salt,
        address indexed account,
        address indexed token,
        uint256 tokenId,
        uint256 amount
    );
    event SweepFailed(bytes32 indexed salt, address indexed token, uint256 tokenId);
    /// The address holds nothing, or less than the item's `minAmount`.
    event SweepSkipped(
        bytes32 indexed salt, address indexed token, uint256 tokenId, uint256 held
    );
    event VaultScheduled(address indexed vault, uint256 executableAt);
    event VaultCanceled(address indexed vault);
    event VaultChanged(address indexed from, address indexed to);

    error NotAContract(address account);
    error TooManyItems(uint256 count);
    error NotEnoughGas();

    constructor(
        uint48 adminDelay,
        address admin,
        address sweeper,
        address vault_,
        uint32 timelock_
    ) AccessControlDefaultAdminRules(adminDelay, admin) TimeLock(timelock_) {
        implementation = address(new Forwarder());
        _requireCode(vault_);
        vault = vault_;
        if (sweeper != address(0)) _grantRole(SWEEPER_ROLE, sweeper);
        emit VaultChanged(address(0), vault_);
    }

    /// @notice The deposit address of `salt`, deployed or not.
    function addressOf(bytes32 salt) external view returns (address) {
        return Clones.predictDeterministicAddress(implementation, salt, address(this));
    }

    /// @notice Moves whole balances to the vault. Kind 0 is ERC-20, 1 ERC-1155, 255 the native coin
    /// (token and id zero). Every item ends in one event: Swept, SweepSkipped, or SweepFailed with
    /// nothing moved. Only too little gas for an item reverts the transaction, so that SweepFailed
    /// never means that the item was starved.
    function sweep(Item[] calldata items) external onlyRole(SWEEPER_ROLE) {
        if (items.length > MAX_ITEMS) revert TooManyItems(items.length);
        address implementation_ = implementation;
        address vault_ = vault;
        for (uint256 i = 0; i < items.length; ++i) {
            if ((gasleft() * 63) / 64 <= SWEEP_GAS + SWEEP_RESERVE) revert NotEnoughGas();
            _sweep(items[i], implementation_, vault_);
        }
    }

    /// @notice The gas limit that suffices for `count` items whatever they do.
    function sweepGasLimit(uint256 count) external pure returns (uint256) {
        return SWEEP_BASE_GAS + count * (SWEEP_GAS + SWEEP_RESERVE);
    }

    /// @notice Announces another vault. It can be executed after the time lock, for EXECUTE_WINDOW.
    function scheduleVault(address vault_) external onlyRole(DEFAULT_ADMIN_ROLE) {
        _requireCode(vault_);
        if (pendingVaultAt != 0) emit VaultCanceled(pendingVault);
        uint64 due = _dueFromNow();
        pendingVault = vault_;
        pendingVaultAt = due;
        emit VaultScheduled(vault_, due);
    }

    function cancelVault() external onlyRole(DEFAULT_ADMIN_ROLE) {
        if (pendingVaultAt == 0) revert NothingScheduled();
        emit VaultCanceled(pendingVault);
        _clearPending();
    }

    function executeVault() external onlyRole(DEFAULT_ADMIN_ROLE) {
        _requireDue(pendingVaultAt);
        emit VaultChanged(vault, pendingVault);
        vault = pendingVault;
        _clearPending();
    }

    function _sweep(Item calldata item, address implementation_, address vault_) private {
        (bytes32 salt, uint8 kind, address token, uint256 tokenId) =
            (item.salt, item.kind, item.token, item.tokenId);
        if (!Assets.isAsset(kind, token, tokenId)) {
            emit SweepFailed(salt, token, tokenId);
            return;
        }
        address account =
            Clones.predictDeterministicAddress(implementation_, salt, address(this));
        (bool ok, uint256 held) = Assets.balanceOf(kind, token, tokenId, account);
        if (ok && (held == 0 || held < item.minAmount)) {
            emit SweepSkipped(salt, token, tokenId, held);
            return;
        }
        uint256 amount = 0;
        if (ok) {
            if (account.code.length == 0) Clones.cloneDeterministic(implementation_, salt);
            (ok, amount) = _forward(item, account, vault_);
        }
        if (ok) emit Swept(salt, account, token, tokenId, amount);
        else emit SweepFailed(salt, token, tokenId);
    }

    /// Its own frame, exact gas and one word back: a failing item is undone completely and cannot
    /// cost more than SWEEP_GAS.
    function _forward(Item calldata item, address account, address vault_)
        private
        returns (bool ok, uint256 amount)
    {
        bytes memory data =
            abi.encodeCall(Forwarder.forward, (item.kind, item.token, item.tokenId, vault_));
        assembly ("memory-safe") {
            ok := call(SWEEP_GAS, account, 0, add(data, 0x20), mload(data), 0x00, 0x20)
            amount := mload(0x00)
        }
    }

    function _clearPending() private {
        pendingVault = address(0);
        pendingVaultAt = 0;
    }

    function _requireCode(address account) private view {
        if (account.code.length == 0) revert NotAContract(account);
    }
}
