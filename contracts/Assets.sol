// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The kinds of asset, read and moved without trusting the token.
/// @dev Never copies more than 32 bytes of return data, so that a token cannot make the caller pay
/// for a long answer.
library Assets {
    uint8 internal constant ERC20 = 0;
    uint8 internal constant ERC1155 = 1;
    /// The chain's own coin, which is never paid. It can be swept and rescued, because people send
    /// it by mistake. Its token and id are zero.
    uint8 internal constant NATIVE = 255;

    /// Gas for reading a balance. A proxied USDC needs about 9 000 when everything is cold.
    uint256 internal constant BALANCE_GAS = 30_000;

    /// ERC-20 tokens and the native coin have no ids. The native coin has no token either.
    function isAsset(uint8 kind, address token, uint256 tokenId) internal pure returns (bool) {
        if (kind == ERC1155) return true;
        if (kind == ERC20) return tokenId == 0;
        return kind == NATIVE && token == address(0) && tokenId == 0;
    }

    /// @return ok false when the token did not answer with a word (no code, revert, too much gas).
    function balanceOf(uint8 kind, address token, uint256 tokenId, address holder)
        internal
        view
        returns (bool ok, uint256 held)
    {
        if (kind == NATIVE) return (true, holder.balance);
        assembly ("memory-safe") {
            let call_ := mload(0x40)
            let size := 0x24
            // balanceOf(address) | balanceOf(address,uint256)
            mstore(call_, shl(224, 0x70a08231))
            mstore(add(call_, 0x04), holder)
            if eq(kind, ERC1155) {
                mstore(call_, shl(224, 0x00fdd58e))
                mstore(add(call_, 0x04), holder)
                mstore(add(call_, 0x24), tokenId)
                size := 0x44
            }
            ok := staticcall(BALANCE_GAS, token, call_, size, 0x00, 0x20)
            ok := and(ok, gt(returndatasize(), 0x1f))
            if ok { held := mload(0x00) }
        }
    }

    /// @dev Moves `amount` of this contract's own holding. Success is judged as SafeERC20 does: no
    /// data and code, or `true`. ERC-1155 transfers return nothing, so only the call's success
    /// counts.
    /// @return ok whether the token reported success.
    /// @return reason why it reverted: the first 32 bytes of its message, or its error's selector;
    /// zero if it gave none. Chosen by the token, so it informs people and decides nothing.
    function transfer(uint8 kind, address token, uint256 tokenId, uint256 amount, address to)
        internal
        returns (bool ok, bytes32 reason)
    {
        if (kind == NATIVE) {
            assembly ("memory-safe") {
                ok := call(gas(), to, amount, 0x00, 0x00, 0x00, 0x00)
            }
            return (ok, 0);
        }
        bytes memory data = kind == ERC20
            ? abi.encodeWithSelector(0xa9059cbb, to, amount) // transfer(address,uint256)
            // safeTransferFrom(address,address,uint256,uint256,bytes)
            : abi.encodeWithSelector(0xf242432a, address(this), to, tokenId, amount, "");
        uint256 size;
        uint256 word;
        assembly ("memory-safe") {
            mstore(0x00, 0)
            ok := call(gas(), token, 0, add(data, 0x20), mload(data), 0x00, 0x20)
            size := returndatasize()
            word := mload(0x00)
            if and(iszero(ok), gt(size, 0x03)) {
                reason := shl(224, shr(224, word))
                // Error(string): selector, offset, length, then the message.
                if and(eq(shr(224, word), 0x08c379a0), gt(size, 0x63)) {
                    returndatacopy(0x00, 0x44, 0x20)
                    reason := mload(0x00)
                }
            }
        }
        if (!ok) return (false, reason);
        if (kind == ERC1155 || size == 0) return (token.code.length != 0, 0);
        return (size > 31 && word == 1, 0);
    }

    /// @dev Transfers and then reads: ok only when this contract's holding fell by exactly
    /// `amount`. The caller must revert on false, which undoes whatever a dishonest token did move.
    function transferExactly(
        uint8 kind,
        address token,
        uint256 tokenId,
        uint256 amount,
        address to,
        uint256 held
    ) internal returns (bool ok, bytes32 reason) {
        (ok, reason) = transfer(kind, token, tokenId, amount, to);
        if (!ok) return (false, reason);
        uint256 left;
        (ok, left) = balanceOf(kind, token, tokenId, address(this));
        ok = ok && amount <= held && left == held - amount;
    }
}
