import { useIsFetching } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import { ConnectionBadge, LiveProvider } from "./live/live.tsx";
import { MarketsPage } from "./markets/markets-page.tsx";
import { useRoute } from "./router.ts";
import { RenewSession, SignIn } from "./session/login.tsx";
import { SessionProvider, type SignedOutProps, useSession } from "./session/session.tsx";
import { usdcOf } from "./ui/values.tsx";
import { useBalance, useBalances } from "./wallet/balances.tsx";

const MarketPage = lazy(() => import("./market/market-page.tsx"));
const PortfolioPage = lazy(() => import("./portfolio/portfolio-page.tsx"));
const MakerPage = lazy(() => import("./maker/maker-page.tsx"));
const WalletPage = lazy(() => import("./wallet/wallet-page.tsx"));
const AccountPage = lazy(() => import("./account/account-page.tsx"));

/** The page of a market belongs to Markets, and has a title of its own. */
const PAGES = {
  markets: { title: "Markets", Page: MarketsPage },
  portfolio: { title: "Portfolio", Page: PortfolioPage },
  maker: { title: "Make markets", Page: MakerPage },
  wallet: { title: "Wallet", Page: WalletPage },
  account: { title: "Account", Page: AccountPage },
} as const;

export function App() {
  return (
    <SessionProvider SignedOut={SignedOut}>
      <LiveProvider>
        <Console />
      </LiveProvider>
    </SessionProvider>
  );
}

function SignedOut(props: SignedOutProps) {
  return (
    <>
      <Header />
      <main className="split">
        <div>
          <h1>Markets</h1>
          <MarketsPage />
        </div>
        <SignIn {...props} />
      </main>
    </>
  );
}

function Console() {
  const [name = "", venue = "", asset = ""] = useRoute();
  const { email, signOut } = useSession();
  const isMarket = name === "market";
  const current = Object.hasOwn(PAGES, name) ? (name as keyof typeof PAGES) : "markets";
  const { title, Page } = PAGES[current];
  useSearchKey();
  return (
    <>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <Header>
        <nav aria-label="Pages">
          {Object.entries(PAGES).map(([page, { title: text }]) => (
            <a key={page} href={`#${page}`} aria-current={page === current ? "page" : undefined}>
              {text}
            </a>
          ))}
        </nav>
        <ConnectionBadge />
        <Cash />
        <span className="who" title={email}>
          {email}
        </span>
        <button type="button" className="quiet" onClick={signOut}>
          Sign out
        </button>
      </Header>
      <RenewSession />
      <main id="main" tabIndex={-1}>
        {isMarket ? null : <h1>{title}</h1>}
        <Suspense fallback={<p role="status">Loading {title.toLowerCase()}…</p>}>
          <Settled key={isMarket ? `${venue}/${asset}` : current}>
            {isMarket ? <MarketPage venue_id={venue} asset_id={asset} /> : <Page />}
          </Settled>
        </Suspense>
      </main>
    </>
  );
}

/** Hides a page until it has its first answers, so that nothing moves while it loads. */
function Settled({ children }: { children: ReactNode }) {
  const loading = useIsFetching({ predicate: ({ state }) => state.status === "pending" });
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    // Queries of the page begin after its first render. A slow one is shown as loading.
    const timer = setTimeout(() => setSettled(true), loading === 0 ? 30 : 2_000);
    return () => clearTimeout(timer);
  }, [loading]);
  return <div className={settled ? "contents" : "contents unseen"}>{children}</div>;
}

function Header({ children }: { children?: ReactNode }) {
  return (
    <header className="bar">
      <a className="brand" href="#markets">
        <svg viewBox="0 0 22 22" width="22" height="22" aria-hidden="true">
          <path d="M9 4 3 11l6 7M13 4l6 7-6 7" />
        </svg>
        RFQ
      </a>
      {children}
    </header>
  );
}

/** The USDC that can be used now. */
function Cash() {
  const isRead = useBalances() !== undefined;
  const usdc = useBalance();
  if (!isRead) return null;
  return (
    <a className="cash" href="#wallet">
      <b>{usdcOf(usdc?.balance) || "0.00"}</b> <span>USDC</span>
    </a>
  );
}

/** `/` searches, unless somebody writes. */
function useSearchKey(): void {
  useEffect(() => {
    const search = (event: KeyboardEvent) => {
      const target = event.target instanceof HTMLElement ? event.target : null;
      if (event.key !== "/" || target?.matches("input, select, textarea") === true) return;
      event.preventDefault();
      location.hash = "#markets";
      focusSearch();
    };
    addEventListener("keydown", search);
    return () => removeEventListener("keydown", search);
  }, []);
}

/** In the first frame in which the field is there and shown, which takes less than 150. */
function focusSearch(frames = 150): void {
  const field = document.querySelector<HTMLElement>("input[type=search]");
  field?.focus();
  if (frames > 0 && (field === null || document.activeElement !== field))
    requestAnimationFrame(() => focusSearch(frames - 1));
}
