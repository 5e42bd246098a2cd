// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title An ERC-20 that misbehaves on command, to show that it harms nobody.
contract HostileToken {
    uint8 public constant HONEST = 0;
    uint8 public constant REVERTS = 1;
    uint8 public constant BURNS_GAS = 2;
    uint8 public constant RETURNS_FALSE = 3;
    uint8 public constant MOVES_AND_RETURNS_FALSE = 4;
    uint8 public constant LIES = 5;
    uint8 public constant MOVES_HALF = 6;
    uint8 public constant MOVES_DOUBLE = 7;
    uint8 public constant RETURNS_NOTHING = 8;
    uint8 public constant RETURN_BOMB = 9;
    uint8 public constant REVERT_BOMB = 10;
    uint8 public constant BALANCE_BURNS_GAS = 11;
    uint8 public constant BALANCE_REVERTS = 12;
    uint8 public constant RETURNS_TWO = 13;
    uint8 public constant NEEDS_GAS = 14;
    uint8 public constant REVERTS_AS_PROBE = 15;

    uint8 public mode;
    /// The only recipient that `mode` applies to; zero for everybody.
    address public only;
    mapping(address => uint256) private _balances;
    mapping(address => bool) public blacklisted;

    event Transfer(address indexed from, address indexed to, uint256 value);

    error Refused();
    /// As the vault's own error.
    error ProbePassed();

    function setMode(uint8 mode_) external {
        mode = mode_;
        only = address(0);
    }

    function setModeFor(address only_, uint8 mode_) external {
        mode = mode_;
        only = only_;
    }

    function setBlacklisted(address account, bool value) external {
        blacklisted[account] = value;
    }

    function mint(address to, uint256 amount) external {
        _balances[to] += amount;
        emit Transfer(address(0), to, amount);
    }

    function trueBalanceOf(address account) external view returns (uint256) {
        return _balances[account];
    }

    function balanceOf(address account) external view returns (uint256) {
        if (mode == BALANCE_BURNS_GAS) _burnGas();
        if (mode == BALANCE_REVERTS) revert Refused();
        return _balances[account];
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        // As USDC does.
        require(!blacklisted[to] && !blacklisted[msg.sender], "Blacklistable: account is blacklisted");
        uint8 mode_ = only == address(0) || only == to ? mode : HONEST;
        if (mode_ == REVERTS) revert Refused();
        if (mode_ == REVERTS_AS_PROBE) revert ProbePassed();
        if (mode_ == BURNS_GAS) _burnGas();
        if (mode_ == NEEDS_GAS && gasleft() < 70_000) revert Refused();
        if (mode_ == RETURNS_FALSE) return false;
        if (mode_ == LIES) return true;
        if (mode_ == REVERT_BOMB) _bomb(true);
        uint256 moved = mode_ == MOVES_HALF ? amount / 2 : mode_ == MOVES_DOUBLE ? amount * 2 : amount;
        _balances[msg.sender] -= moved;
        _balances[to] += moved;
        emit Transfer(msg.sender, to, moved);
        if (mode_ == RETURNS_NOTHING) {
            assembly {
                return(0, 0)
            }
        }
        if (mode_ == RETURN_BOMB) _bomb(false);
        if (mode_ == RETURNS_TWO) {
            assembly {
                mstore(0, 2)
                return(0, 0x20)
            }
        }
        return mode_ != MOVES_AND_RETURNS_FALSE;
    }

    function _burnGas() private pure {
        assembly {
            invalid()
        }
    }

    /// About 20 kB whose first word is `true`: costly only to a caller that copies it.
    function _bomb(bool reverts) private pure {
        assembly {
            mstore(0, 1)
            if reverts { revert(0, 20000) }
            return(0, 20000)
        }
    }
}
