import { useIsFetching } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useEffect, useState } from "react";
import { ConnectionBadge } from "./live/connection-badge.tsx";
import { MarketsPage } from "./markets/markets-page.tsx";
import { useMyRequests } from "./portfolio/my-requests.ts";
import { useRoute } from "./router.ts";
import { SessionProvider, useDoor, useSession } from "./session/session.tsx";
import { useTitle } from "./title.ts";
import { Loading, Place } from "./ui/place.tsx";
import { Toasts } from "./ui/toasts.tsx";
import { usdcOf } from "./ui/values.tsx";
import { useBalance, useBalances } from "./wallet/balances.ts";

const SignedIn = lazy(() => import("./live/signed-in.tsx"));
const SignIn = lazy(() => import("./session/login.tsx"));
const RenewSession = lazy(() => import("./session/renew-session.tsx"));
const MarketPage = lazy(() => import("./market/market-page.tsx"));
const PortfolioPage = lazy(() => import("./portfolio/portfolio-page.tsx"));
const MakerPage = lazy(() => import("./maker/maker-page.tsx"));
const WalletPage = lazy(() => import("./wallet/wallet-page.tsx"));
const AccountPage = lazy(() => import("./account/account-page.tsx"));

/** The page of a market belongs to Markets, and has a title of its own. */
const PAGES = {
  markets: { title: "Markets", Page: MarketsPage, isPublic: true },
  portfolio: { title: "Portfolio", Page: PortfolioPage, isPublic: false },
  maker: { title: "Make markets", Page: MakerPage, isPublic: false },
  wallet: { title: "Wallet", Page: WalletPage, isPublic: false },
  account: { title: "Account", Page: AccountPage, isPublic: false },
} as const;

export function App() {
  return (
    <SessionProvider>
      <Door />
      <Toasts />
    </SessionProvider>
  );
}

function Door() {
  const { signed } = useDoor();
  if (signed === null) return <Console />;
  return (
    <Suspense>
      <SignedIn>
        <Console />
      </SignedIn>
    </Suspense>
  );
}

function Console() {
  const [name = "", venue = "", asset = "", ...rest] = useRoute();
  const { signed, asking } = useDoor();
  const current = Object.hasOwn(PAGES, name) ? (name as keyof typeof PAGES) : "markets";
  const { title, Page, isPublic } = PAGES[current];
  const isMarket = name === "market";
  const isDoor = signed === null && (name === "sign-in" || !(isPublic || isMarket));
  useTitle(isDoor ? "Sign in" : title);
  useSearchKey();
  const back = [venue, asset, ...rest].filter(Boolean).join("/");
  const page = isMarket ? `${venue}/${asset}` : isDoor ? "sign-in" : current;
  return (
    <>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <header className="bar">
        <a className="brand" href="#markets">
          <svg viewBox="0 0 22 22" width="22" height="22" aria-hidden="true">
            <path d="M9 4 3 11l6 7M13 4l6 7-6 7" />
          </svg>
          RFQ
        </a>
        <nav aria-label="Pages">
          {Object.entries(PAGES)
            .filter(([, one]) => one.isPublic || signed !== null)
            .map(([to, { title: text }]) => (
              <a key={to} href={`#${to}`} aria-current={page === to ? "page" : undefined}>
                <Short text={text} />
                {to === "portfolio" ? <OpenCount /> : null}
              </a>
            ))}
        </nav>
        {isDoor ? null : signed === null ? (
          <a
            className="button"
            href={`#sign-in/${name === "sign-in" ? back : [name, back].filter(Boolean).join("/")}`}
          >
            Sign in
          </a>
        ) : (
          <Person />
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {isMarket || isDoor ? null : <h1>{title}</h1>}
        <Place key={page} of="this page">
          <Suspense fallback={<Loading what={title} rows={6} />}>
            {signed === null ? null : <RenewSession />}
            <Settled isReady={!asking || signed !== null}>
              {isDoor ? (
                <SignIn {...(name === "sign-in" ? { back: back || "markets" } : {})} />
              ) : isMarket ? (
                <MarketPage venue_id={venue} asset_id={asset} sells={rest[0] === "sell"} />
              ) : (
                <Page />
              )}
            </Settled>
          </Suspense>
        </Place>
      </main>
    </>
  );
}

/** One word of it on a phone. */
function Short({ text }: { text: string }) {
  const [first, ...others] = text.split(" ");
  return (
    <span>
      {first}
      {others.length === 0 ? null : <span className="wide"> {others.join(" ")}</span>}
    </span>
  );
}

/** Hides a page until it has its first answers, so that nothing moves while it loads. */
function Settled({ isReady, children }: { isReady: boolean; children: ReactNode }) {
  const loading = useIsFetching({ predicate: ({ state }) => state.status === "pending" });
  const [settled, setSettled] = useState(false);
  useEffect(() => {
    // Queries of the page begin after its first render. A slow one is shown as loading.
    const timer = setTimeout(() => setSettled(isReady), loading === 0 ? 30 : 2_000);
    return () => clearTimeout(timer);
  }, [loading, isReady]);
  return (
    <>
      {settled ? null : (
        <div className="over-page">
          <Loading what="this page" rows={8} />
        </div>
      )}
      <div className={settled ? "contents" : "contents unseen"}>{children}</div>
    </>
  );
}

/** The connection, the USDC that can be used now, and who is signed in. */
function Person() {
  const { email, signOut } = useSession();
  return (
    <>
      <ConnectionBadge />
      <Cash />
      <span className="who" title={email}>
        {email}
      </span>
      <button type="button" className="quiet wide" onClick={signOut}>
        Sign out
      </button>
    </>
  );
}

function Cash() {
  const isRead = useBalances({ optional: true }) !== undefined;
  const usdc = useBalance();
  if (!isRead) return null;
  return (
    <a className="cash" href="#wallet">
      <b>{usdcOf(usdc?.balance) || "0.00"}</b> <span>USDC</span>
    </a>
  );
}

/** The requests that wait for quotes or for the person. */
function OpenCount() {
  const count = useMyRequests({ optional: true })?.length ?? 0;
  return count === 0 ? null : (
    <b className="count">
      {count}
      <span className="sr"> open requests</span>
    </b>
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
