import { AccountPage } from "./account/account-page.tsx";
import { LiveProvider } from "./live/live.tsx";
import { ConnectionBadge } from "./live/connection-badge.tsx";
import { MakerPage } from "./maker/maker-page.tsx";
import { useHash } from "./router.ts";
import { RenewSession } from "./session/renew.tsx";
import { SessionProvider, useSession } from "./session/session.tsx";
import { SignIn } from "./session/sign-in.tsx";
import { TradePage } from "./trade/trade-page.tsx";
import { WalletPage } from "./wallet/wallet-page.tsx";

const PAGES = {
  trade: { title: "Trade", Page: TradePage },
  maker: { title: "Make markets", Page: MakerPage },
  wallet: { title: "Wallet", Page: WalletPage },
  account: { title: "Account", Page: AccountPage },
} as const;

export function App() {
  return (
    <SessionProvider signedOut={<SignIn />}>
      <LiveProvider>
        <Console />
      </LiveProvider>
    </SessionProvider>
  );
}

function Console() {
  const hash = useHash();
  const { email, signOut } = useSession();
  const current = Object.hasOwn(PAGES, hash) ? (hash as keyof typeof PAGES) : "trade";
  const { title, Page } = PAGES[current];
  return (
    <>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <header className="bar">
        <strong>RFQ console</strong>
        <nav aria-label="Pages">
          {Object.entries(PAGES).map(([name, page]) => (
            <a key={name} href={`#${name}`} aria-current={name === current ? "page" : undefined}>
              {page.title}
            </a>
          ))}
        </nav>
        <ConnectionBadge />
        <span className="who">{email}</span>
        <button type="button" onClick={signOut}>
          Sign out
        </button>
      </header>
      <RenewSession />
      <main id="main" tabIndex={-1}>
        <h1>{title}</h1>
        <Page />
      </main>
    </>
  );
}
