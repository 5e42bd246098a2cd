// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ERC1155Holder} from "@openzeppelin/contracts/token/ERC1155/utils/ERC1155Holder.sol";
import {Assets} from "./Assets.sol";

/// @title The code behind every deposit address: holds, and moves only when the factory calls it.
/// @notice Deposit addresses are minimal proxies of the one Forwarder that the factory created.
/// They have no storage, so there is nothing to initialise and no first caller to fear.
contract Forwarder is ERC1155Holder {
    address public immutable factory;

    error OnlyFactory();
    error TransferFailed();

    constructor() {
        factory = msg.sender;
    }

    /// @notice Moves the whole holding of one asset to `to`, or reverts with nothing moved.
    function forward(uint8 kind, address token, uint256 tokenId, address to)
        external
        returns (uint256 amount)
    {
        if (msg.sender != factory) revert OnlyFactory();
        bool ok;
        (ok, amount) = Assets.balanceOf(kind, token, tokenId, address(this));
        if (!ok || amount == 0) revert TransferFailed();
        (ok,) = Assets.transferExactly(kind, token, tokenId, amount, to, amount);
        if (!ok) revert TransferFailed();
    }
}
