// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Assets} from "./Assets.sol";
import {Limits} from "./Limits.sol";

/// @title Sends on what customers transferred by mistake: tokens that the vault never pays, and the
/// native coin.
abstract contract Rescue is Limits {
    struct Asset {
        uint8 kind;
        address token;
        uint256 tokenId;
    }

    mapping(bytes32 key => uint64) private _rescues;

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

    error HasLimit(address token);
    error InvalidRecipient(address to);
    error TransferFailed(bytes32 reason);

    /// @notice Announces that a mistaken transfer will be sent on: a token of which no limit was
    /// ever set, so that it cannot be paid, or the native coin (kind 255, token and id zero).
    function scheduleRescue(Asset calldata asset, address to, uint256 amount)
        external
        onlyRole(DEFAULT_ADMIN_ROLE)
    {
        _requireRescuable(asset);
        if (to == address(0) || to == address(this)) revert InvalidRecipient(to);
        uint64 due = _dueFromNow();
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
        if (!Assets.isAsset(kind, token, tokenId)) revert InvalidAsset();
        if (kind != Assets.NATIVE && _hasLimit(token, tokenId)) revert HasLimit(token);
    }

    function _rescueKey(Asset calldata asset, address to, uint256 amount)
        private
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(asset.kind, asset.token, asset.tokenId, to, amount));
    }
}
