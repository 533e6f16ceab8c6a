#include "tests/operations/delivery/fake_receiver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

namespace stepwatch::testing {
namespace {

std::string TextOfBio(BIO* bio) {
  char* bytes = nullptr;
  const long size = ::BIO_get_mem_data(bio, &bytes);
  std::string text(bytes, static_cast<size_t>(size));
  ::BIO_free(bio);
  return text;
}

}  // namespace

FakeCertificate MakeCertificate(const std::string& name, long from_s, long to_s) {
  EVP_PKEY* const key = ::EVP_EC_gen("P-256");
  X509* const certificate = ::X509_new();
  ::X509_set_version(certificate, 2);
  ::ASN1_INTEGER_set(::X509_get_serialNumber(certificate), 1);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate), from_s);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate), to_s);
  ::X509_set_pubkey(certificate, key);
  X509_NAME* const subject = ::X509_get_subject_name(certificate);
  ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1,
                               -1, 0);
  ::X509_set_issuer_name(certificate, subject);
  X509_EXTENSION* const names = ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, name.c_str());
  ::X509_add_ext(certificate, names, -1);
  ::X509_sign(certificate, key, ::EVP_sha256());
  FakeCertificate result;
  BIO* bio = ::BIO_new(::BIO_s_mem());
  ::PEM_write_bio_X509(bio, certificate);
  result.certificate_pem = TextOfBio(bio);
  bio = ::BIO_new(::BIO_s_mem());
  ::PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  result.key_pem = TextOfBio(bio);
  ::X509_EXTENSION_free(names);
  ::X509_free(certificate);
  ::EVP_PKEY_free(key);
  return result;
}

long FakeReceiver::Peer::ReadSome(char* bytes, size_t count) {
  if (ssl_ != nullptr) return ::SSL_read(ssl_, bytes, static_cast<int>(count));
  return ::recv(fd_, bytes, count, 0);
}

std::string FakeReceiver::Peer::ReadUntil(const std::string& end) {
  size_t found = read_.find(end);
  while (found == std::string::npos) {
    char bytes[4096];
    const long count = ReadSome(bytes, sizeof bytes);
    if (count <= 0) break;
    read_.append(bytes, static_cast<size_t>(count));
    found = read_.find(end);
  }
  const std::string text = read_.substr(0, found == std::string::npos ? found : found + end.size());
  read_.erase(0, text.size());
  return text;
}

std::string FakeReceiver::Peer::ReadRequest() {
  std::string request = ReadUntil("\r\n\r\n");
  const std::string name = "Content-Length: ";
  const size_t at = request.find(name);
  const size_t length = at == std::string::npos ? 0 : std::stoul(request.substr(at + name.size()));
  while (read_.size() < length) {
    char bytes[4096];
    const long count = ReadSome(bytes, sizeof bytes);
    if (count <= 0) break;
    read_.append(bytes, static_cast<size_t>(count));
  }
  request += read_.substr(0, length);
  read_.erase(0, std::min(length, read_.size()));
  return request;
}

bool FakeReceiver::Peer::Write(const std::string& bytes) {
  for (size_t written = 0; written < bytes.size();) {
    const long count = ssl_ != nullptr
                           ? ::SSL_write(ssl_, bytes.data() + written, static_cast<int>(bytes.size() - written))
                           : ::send(fd_, bytes.data() + written, bytes.size() - written, MSG_NOSIGNAL);
    if (count <= 0) return false;
    written += static_cast<size_t>(count);
  }
  return true;
}

void FakeReceiver::Peer::WaitForEnd() {
  char byte = 0;
  while (ReadSome(&byte, 1) > 0) {
  }
}

void FakeReceiver::Peer::Reset() {
  const linger hard = {1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

FakeReceiver::FakeReceiver(Behaviour behaviour, const FakeCertificate* certificate) : behaviour_(std::move(behaviour)) {
  // OpenSSL writes without MSG_NOSIGNAL.
  ::signal(SIGPIPE, SIG_IGN);
  if (certificate != nullptr) {
    tls_.reset(::SSL_CTX_new(::TLS_server_method()));
    BIO* bio = ::BIO_new_mem_buf(certificate->certificate_pem.data(), -1);
    X509* const x509 = ::PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    ::SSL_CTX_use_certificate(tls_.get(), x509);
    ::X509_free(x509);
    ::BIO_free(bio);
    bio = ::BIO_new_mem_buf(certificate->key_pem.data(), -1);
    EVP_PKEY* const key = ::PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    ::SSL_CTX_use_PrivateKey(tls_.get(), key);
    ::EVP_PKEY_free(key);
    ::BIO_free(bio);
  }
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("cannot listen at a local port");
  host_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  thread_ = std::thread([this] { Listen(); });
}

FakeReceiver::~FakeReceiver() {
  is_ending_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  {
    const base::MutexLock lock(&mutex_);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  thread_.join();
  ::close(listener_);
}

void FakeReceiver::Listen() {
  while (!is_ending_) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) break;
    ++connections_;
    const base::MutexLock lock(&mutex_);
    open_.push_back(fd);
    // The destructor has perhaps not seen it.
    if (is_ending_) ::shutdown(fd, SHUT_RDWR);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
  for (std::thread& thread : threads_) thread.join();
}

void FakeReceiver::Serve(int fd) {
  SSL* ssl = nullptr;
  if (tls_ != nullptr) {
    ssl = ::SSL_new(tls_.get());
    ::SSL_set_fd(ssl, fd);
  }
  if (ssl == nullptr || ::SSL_accept(ssl) == 1) {
    Peer peer(fd, ssl, is_ending_);
    behaviour_(&peer);
    if (ssl != nullptr) ::SSL_shutdown(ssl);
  }
  ::SSL_free(ssl);
  const base::MutexLock lock(&mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  ::close(fd);
}

FakeReceiver::Behaviour Answering(const std::string& status, const std::string& body, const std::string& headers) {
  return [=](FakeReceiver::Peer* peer) {
    (void)peer->ReadRequest();
    peer->Write("HTTP/1.1 " + status + "\r\n" + headers + "Content-Length: " + std::to_string(body.size()) +
                "\r\nConnection: close\r\n\r\n" + body);
  };
}

}  // namespace stepwatch::testing
