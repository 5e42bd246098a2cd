// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {ERC165} from "@openzeppelin/contracts/utils/introspection/ERC165.sol";

/// @title An ERC-1155 recipient that misbehaves on command, to show that it harms nobody but itself.
contract HostileRecipient is ERC165 {
    uint8 public constant ACCEPTS = 0;
    uint8 public constant REVERTS = 1;
    uint8 public constant BURNS_GAS = 2;
    uint8 public constant WRONG_ANSWER = 3;
    uint8 public constant REVERT_BOMB = 4;
    uint8 public constant SENDS_BACK = 5;
    uint8 public constant CALLS = 6;
    uint8 public constant NEEDS_GAS = 7;
    uint8 public constant BURNS_MOST = 8;

    // One slot, so that the hook can afford to note what happened.
    uint8 public mode;
    address public target;
    bool public called;
    bool public callSucceeded;
    /// Holds what to call as its code: reading it costs a fraction of reading it from storage.
    address private _data;

    error Refused();

    function setMode(uint8 mode_) external {
        mode = mode_;
    }

    /// What to call from inside the transfer hook, once.
    function setCall(address target_, bytes calldata data_) external {
        mode = CALLS;
        target = target_;
        called = false;
        callSucceeded = false;
        // PUSH4 size, DUP1, PUSH1 14, PUSH1 0, CODECOPY, PUSH1 0, RETURN; the code begins with STOP.
        uint32 size = uint32(data_.length + 1);
        bytes memory code = abi.encodePacked(hex"63", size, hex"80600e6000396000f300", data_);
        address created;
        assembly {
            created := create(0, add(code, 0x20), mload(code))
        }
        _data = created;
    }

    function execute(address target_, bytes calldata data_) external {
        (bool ok,) = target_.call(data_);
        if (!ok) revert Refused();
    }

    /// Several calls in one transaction.
    function executeAll(address target_, bytes[] calldata calls) external {
        for (uint256 i = 0; i < calls.length; ++i) {
            (bool ok,) = target_.call(calls[i]);
            if (!ok) revert Refused();
        }
    }

    function onERC1155Received(address, address from, uint256 id, uint256 amount, bytes calldata)
        external
        returns (bytes4)
    {
        if (mode == REVERTS) revert Refused();
        if (mode == BURNS_GAS) {
            assembly {
                invalid()
            }
        }
        if (mode == NEEDS_GAS && gasleft() < 40_000) revert Refused();
        if (mode == BURNS_MOST) while (gasleft() > 6_000) {}
        if (mode == WRONG_ANSWER) return 0xdeadbeef;
        if (mode == REVERT_BOMB) {
            assembly {
                revert(0, 20000)
            }
        }
        if (mode == SENDS_BACK) IERC1155(msg.sender).safeTransferFrom(address(this), from, id, amount, "");
        if (mode == CALLS && !called) {
            called = true;
            (callSucceeded,) = target.call(_readData());
        }
        return this.onERC1155Received.selector;
    }

    function _readData() private view returns (bytes memory data) {
        address from = _data;
        assembly {
            let size := sub(extcodesize(from), 1)
            data := mload(0x40)
            mstore(0x40, add(data, and(add(size, 0x3f), not(0x1f))))
            mstore(data, size)
            extcodecopy(from, add(data, 0x20), 1, size)
        }
    }
}
