// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The two kinds of asset, read and moved without trusting the token.
/// @dev Never copies more than 32 bytes of return data, so a token cannot make us pay for its answer.
library Assets {
    uint8 internal constant ERC20 = 0;
    uint8 internal constant ERC1155 = 1;

    /// Gas a token gets to tell a balance; a proxied USDC needs about 9 000 when everything is cold.
    uint256 internal constant BALANCE_GAS = 30_000;

    /// @return ok false when the token did not answer with a word (no code, revert, too much gas).
    function balanceOf(uint8 kind, address token, uint256 tokenId, address holder)
        internal
        view
        returns (bool ok, uint256 held)
    {
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

    /// @dev Moves `amount` of this contract's own holding. Success is judged as SafeERC20 does: no data and
    /// code, or `true`. ERC-1155 transfers return nothing, so the call's success is all there is.
    function transfer(uint8 kind, address token, uint256 tokenId, uint256 amount, address to)
        internal
        returns (bool)
    {
        bytes memory data = kind == ERC20
            ? abi.encodeWithSelector(0xa9059cbb, to, amount) // transfer(address,uint256)
            // safeTransferFrom(address,address,uint256,uint256,bytes)
            : abi.encodeWithSelector(0xf242432a, address(this), to, tokenId, amount, "");
        bool ok;
        uint256 size;
        uint256 word;
        assembly ("memory-safe") {
            mstore(0x00, 0)
            ok := call(gas(), token, 0, add(data, 0x20), mload(data), 0x00, 0x20)
            size := returndatasize()
            word := mload(0x00)
        }
        if (!ok) return false;
        if (kind == ERC1155 || size == 0) return token.code.length != 0;
        return size > 31 && word == 1;
    }

    /// @dev Transfer, then look: true only when this contract's holding fell by exactly `amount`.
    /// The caller must revert on false, which undoes whatever a lying token did move.
    function transferExactly(uint8 kind, address token, uint256 tokenId, uint256 amount, address to, uint256 held)
        internal
        returns (bool)
    {
        if (!transfer(kind, token, tokenId, amount, to)) return false;
        (bool ok, uint256 left) = balanceOf(kind, token, tokenId, address(this));
        return ok && amount <= held && left == held - amount;
    }
}
